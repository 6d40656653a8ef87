-- Runtime parameters, the versions of what processes keep a copy of, and who changed what.

-- Runtime parameters that are set (the specification's gdpconfig). What is not here has the default of its declaration.
CREATE TABLE parameters (
    app text NOT NULL DEFAULT 'jedi',          -- 'orrery' for what the specification does not have
    component text NOT NULL,                   -- what it belongs to: jobbroker, taskbroker, maintenance, ...
    key text NOT NULL,                         -- its name
    vo text NOT NULL DEFAULT '',               -- for which VO; '': for those that have none of their own
    value text NOT NULL,                       -- as text
    type text NOT NULL CHECK (type IN ('str', 'int', 'float', 'bool', 'json')),   -- what the text is
    description text NOT NULL DEFAULT '',      -- what whoever set it said of it
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was set last
    changed_by text NOT NULL DEFAULT '',       -- by whom
    PRIMARY KEY (app, component, key, vo)
);

-- The version of each thing that processes keep a copy of: who sees another one reads it again.
CREATE TABLE versions (
    name text PRIMARY KEY,                     -- config, grid, shares, classes, statistics, revocations
    version bigint NOT NULL DEFAULT 1,         -- raised with each change
    changed_at timestamptz NOT NULL DEFAULT orrery_now()   -- of the last change
);
INSERT INTO versions (name) VALUES ('config'), ('grid'), ('shares'), ('classes'), ('statistics'), ('revocations');

-- Who gave which command, and what came of it.
CREATE TABLE audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    caller text NOT NULL,                      -- who
    roles text[] NOT NULL DEFAULT '{}',        -- the caller's roles
    verb text NOT NULL,                        -- what was asked: job/kill, ...
    target text NOT NULL,                      -- of what
    outcome text NOT NULL,                     -- what came of it
    details jsonb NOT NULL DEFAULT '{}'        -- the arguments
);
CREATE INDEX audit_log_target ON audit_log (target, at);
CREATE INDEX audit_log_old ON audit_log (at);
