-- Work that is done every so often: who has the turn, and what the watchdog remembers between two runs.

-- Which process does a piece of periodic work now (the specification's JEDI_Process_Lock).
CREATE TABLE leases (
    name text NOT NULL,                        -- the work
    partition text NOT NULL DEFAULT '',        -- a part of it that others may do elsewhere
    holder text NOT NULL,                      -- the process
    term bigint NOT NULL,                      -- raised with each new holder: what an older one still does is refused
    acquired_at timestamptz NOT NULL,          -- since when
    expires_at timestamptz NOT NULL,           -- until when, unless it is renewed
    PRIMARY KEY (name, partition)
);

-- Kept from the specification; leases, with their fencing terms, do its work.
CREATE TABLE process_locks (
    prod_source_label varchar(20) NOT NULL,    -- label
    vo varchar(16) NOT NULL,                   -- VO
    work_queue_id int NOT NULL,                -- work queue
    cloud varchar(10),                         -- cloud
    locked_by varchar(40) NOT NULL,            -- process
    locked_time timestamptz NOT NULL,          -- since when
    PRIMARY KEY (prod_source_label, vo, work_queue_id)
);

-- One row for each watch of the watchdog.
CREATE TABLE watch_runs (
    watch text PRIMARY KEY,                    -- its name
    last_run_at timestamptz NOT NULL,          -- when it last ran
    last_slice_at timestamptz,                 -- when it last did a part of a turn and left more
    grace_until timestamptz,                   -- until when it keeps its hands still after an outage of our own
    grace_reason text,                         -- which outage
    last_done_at timestamptz,                  -- when it last did something
    last_done jsonb,                           -- what: how many rows, and of which ids it told
    -- of a sweep that goes through tasks of which nothing that moved has a time:
    walk_began_at timestamptz,                 -- when it last began with the first
    walk_after bigint                          -- it has gone through those up to this one; NULL: through all
);

-- Time-out rules of jobs that VOs added to those of the field, each for jobs of its VO.
CREATE TABLE timeout_rules (
    rule text PRIMARY KEY,                     -- its name
    vo text NOT NULL,                          -- the VO
    place int NOT NULL,                        -- the order in which the VO gave them
    data jsonb NOT NULL                        -- states, condition, limit, next state, code, source
);

-- What the reconciling sweep announced again. The waits between two announcements double, so that a service that is
-- merely behind is not given its backlog twice.
CREATE TABLE sweep_marks (
    kind text NOT NULL,                        -- the kind of sweep
    entity_id bigint NOT NULL,                 -- the task, chunk or job
    times int NOT NULL DEFAULT 1,              -- how often
    swept_at timestamptz NOT NULL,             -- when last
    PRIMARY KEY (kind, entity_id)
);
CREATE INDEX sweep_marks_old ON sweep_marks (swept_at);

-- How far each rule of retention is: what lies before it was judged and is not read again.
CREATE TABLE retention_positions (
    rule text PRIMARY KEY,                     -- the rule
    at timestamptz NOT NULL DEFAULT 'epoch',   -- the time of the last row, or the day of the last job, that was judged
    id bigint NOT NULL DEFAULT 0,              -- the last task or job of that time
    key text[],                                -- the last key of a walk through all rows
    n_dropped bigint NOT NULL DEFAULT 0,       -- rows that it has dropped; of partitions: days
    dropped_at timestamptz                     -- when it last dropped some
);

-- Tasks whose rows a rule could not drop when it came to them: judged again from time to time.
CREATE TABLE retention_put_off (
    rule text NOT NULL,                        -- the rule
    task_id bigint NOT NULL,                   -- the task
    day date NOT NULL DEFAULT 'epoch',         -- the day that archived its jobs, where the rule goes by jobs
    status text NOT NULL DEFAULT '',           -- how far its jobs of that day are: the state of the last one
    job_id bigint NOT NULL DEFAULT 0,          -- and its id
    due_at timestamptz NOT NULL,               -- when it is judged again
    PRIMARY KEY (rule, task_id, day)
);
CREATE INDEX retention_put_off_due ON retention_put_off (rule, due_at);
CREATE INDEX retention_put_off_day ON retention_put_off (day);

-- How large the tables of each rule were at the end of each day.
CREATE TABLE retention_sizes (
    rule text NOT NULL,                        -- the rule
    day date NOT NULL,                         -- in UTC
    n_bytes bigint NOT NULL,                   -- with indexes
    PRIMARY KEY (rule, day)
);
