-- Usage is read by span of time; corrections among the users of one share.
CREATE INDEX usage_history_at ON usage_history (at);

CREATE TABLE user_corrections (
    gshare text NOT NULL,
    user_name text NOT NULL,
    correction_factor double precision NOT NULL CHECK (correction_factor > 0),
    corrected_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (gshare, user_name)
);
