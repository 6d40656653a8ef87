-- Tokens that are no longer believed: one by its id, or all that a subject got before a time.
CREATE TABLE revocations (
    kind text NOT NULL CHECK (kind IN ('token', 'subject')),
    name text NOT NULL CHECK (name <> ''),
    revoked_at timestamptz NOT NULL DEFAULT orrery_now(),
    -- when the last such token has expired: the row means nothing any more
    until timestamptz NOT NULL,
    revoked_by text NOT NULL,
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (kind, name)
);
INSERT INTO versions (name) VALUES ('revocations');
