-- Correction factors of groups of users, and of users in them (user_name is '' for the group itself).
CREATE TABLE group_corrections (
    vo text NOT NULL,
    user_group text NOT NULL,
    user_name text NOT NULL,
    correction_factor double precision NOT NULL CHECK (correction_factor > 0),
    corrected_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (vo, user_group, user_name)
);

-- Terms are those of a share (gshare) or of a group (user_group, of a VO); the other name is ''.
ALTER TABLE correction_terms ADD COLUMN user_group text NOT NULL DEFAULT '';
ALTER TABLE correction_terms DROP CONSTRAINT correction_terms_pkey;
ALTER TABLE correction_terms ADD PRIMARY KEY (gshare, user_name, at, user_group, vo, corrector, instance);
