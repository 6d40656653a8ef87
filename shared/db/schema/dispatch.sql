-- Which pilot gets which job: claims, dispatchers, task queues with their order, limits of sites.

-- Jobs that pilots got, one row for each: a request that is repeated gets the same jobs. A job goes to at most one
-- pilot: refused by the database, whatever a dispatcher believes.
CREATE TABLE job_claims (
    request_key text PRIMARY KEY,              -- of the pilot's request, and the place of the job in its answer
    job_id bigint NOT NULL,                    -- the job
    claimed_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    subject text                               -- whose token asked: the job's reports come from the same
);
CREATE UNIQUE INDEX job_claims_job ON job_claims (job_id);
CREATE INDEX job_claims_old ON job_claims (claimed_at);

-- The replicas of the dispatcher that are alive: each prefers the jobs of its own residue class, so that two replicas
-- seldom try the same job. Losing this table costs speed only.
CREATE TABLE dispatch_replicas (
    replica text PRIMARY KEY,                  -- the replica
    seen_at timestamptz NOT NULL DEFAULT orrery_now()   -- when it last said so
);

-- In which minutes calls of pilots were heard: a pilot is silent only while it could be heard.
CREATE TABLE heard_minutes (
    vo text NOT NULL,                          -- of the jobs that were reported, or of who asked for jobs; '': of all
    minute timestamptz NOT NULL,               -- its beginning
    n_heard int NOT NULL,                      -- calls; 0 of all: a dispatcher was there, and nobody called
    PRIMARY KEY (vo, minute)
);

-- Each start of a dispatcher takes a number: the keys it makes for acquires without one must never have been used, also
-- after a restart with the same random seed.
CREATE SEQUENCE dispatcher_numbers;

-- What the order of dispatch depends on, shared by all jobs of one task queue (DIRAC): jobs that agree in all of it.
CREATE TABLE task_queues (
    task_queue_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    identity text NOT NULL UNIQUE,             -- a digest of all that follows but the times
    vo text NOT NULL,                          -- VO
    user_name text NOT NULL,                   -- user
    user_group text NOT NULL,                  -- group of users
    cpu_segment_s int NOT NULL,                -- CPU time, up to this
    sites text[] NOT NULL,                     -- sites that jobs may run at; none: any
    banned_sites text[] NOT NULL,              -- sites that they may not run at
    platforms text[] NOT NULL,                 -- platforms that they run on
    tags text[] NOT NULL,                      -- tags that a pilot must have
    job_types text[] NOT NULL,                 -- kinds of job
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was first used
    used_at timestamptz NOT NULL DEFAULT orrery_now(),      -- when jobs were last made for it, to a minute
    empty_since timestamptz                    -- no job has it since; it is deleted a while later
);

-- The jobs of one user priority in a task queue: what a lane of the dispatcher belongs to beside its share.
CREATE TABLE order_keys (
    order_key_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number, as jobs have it
    task_queue_id int NOT NULL REFERENCES task_queues ON DELETE CASCADE,   -- the task queue
    user_priority smallint NOT NULL,           -- the class of user priority
    UNIQUE (task_queue_id, user_priority)
);

-- The order keys that waiting jobs of a VO shall have since its configuration says so: how far they were given again.
-- There are two passes, as another process may know of it some seconds later.
CREATE TABLE order_key_sweeps (
    vo text PRIMARY KEY,                       -- the VO; '': of jobs without one
    wanted text NOT NULL,                      -- the configuration in words
    passes_left smallint NOT NULL,             -- passes that are not over
    after_task_id bigint NOT NULL DEFAULT 0,   -- how far this pass is
    due_at timestamptz NOT NULL DEFAULT orrery_now(),      -- when it goes on
    changed_at timestamptz NOT NULL DEFAULT orrery_now()   -- when the configuration changed
);

-- Tasks whose waiting jobs get their order keys again, as their share has changed.
CREATE TABLE order_key_changes (
    task_id bigint PRIMARY KEY,                -- the task
    changed_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Changes of priority or share of the waiting jobs of a task that are under way.
CREATE TABLE job_order_changes (
    task_id bigint PRIMARY KEY,                -- the task
    priority int,                              -- the new priority; NULL: stays as it is
    gshare text,                               -- the new share; NULL: stays as it is
    n_jobs bigint NOT NULL DEFAULT 0,          -- jobs so far
    started_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it began
    moved_at timestamptz NOT NULL DEFAULT orrery_now(),     -- of the last slice: who waited longest is next
    CHECK (priority IS NOT NULL OR gshare IS NOT NULL)
);
CREATE INDEX job_order_changes_turn ON job_order_changes (moved_at);

-- Jobs that a dispatcher may claim though a limit of their site means them: they count like running ones until they
-- are.
CREATE TABLE site_limit_permits (
    job_id bigint PRIMARY KEY,                 -- the job
    made_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Delays of sites that have begun.
CREATE TABLE site_delays (
    name text PRIMARY KEY,                     -- the rule and the site
    job_id bigint NOT NULL,                    -- the job whose match began it
    ends_at timestamptz NOT NULL               -- until when
);
