-- What happens at queues, folded from the events of jobs by job_brokerage.

-- How many jobs of each kind there are now.
CREATE TABLE queue_statistics (
    queue text NOT NULL,                       -- at this queue
    resource_type text NOT NULL,               -- of this type
    gshare text NOT NULL,                      -- of this share
    user_name text NOT NULL,                   -- of this user
    status text NOT NULL,                      -- in this state
    n_jobs bigint NOT NULL,                    -- jobs
    n_cores bigint NOT NULL,                   -- cores of theirs
    version bigint NOT NULL DEFAULT 1,         -- raised with each change
    vo text NOT NULL DEFAULT '',               -- of tasks of this VO; '': of none
    PRIMARY KEY (queue, resource_type, gshare, user_name, status, vo)
) WITH (fillfactor = 50);
CREATE INDEX queue_statistics_user ON queue_statistics (user_name, vo);

-- Chunks whose jobs are in the statistics: who still expects them, because the news was lost, finds out here.
CREATE TABLE counted_chunks (
    chunk_id bigint PRIMARY KEY,               -- the chunk
    counted_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);
CREATE INDEX counted_chunks_age ON counted_chunks (counted_at);

-- Signs of life of each queue.
CREATE TABLE queue_activity (
    queue text PRIMARY KEY,                    -- the queue
    last_pilot_at timestamptz,                 -- when a pilot last asked for a job
    last_job_start_at timestamptz,             -- when a job last began
    running_workers int NOT NULL DEFAULT 0,    -- batch jobs that run
    submitted_workers int NOT NULL DEFAULT 0,  -- batch jobs that wait
    n_slots int,                               -- slots that Harvester set, in all; NULL: none are set
    mean_disk_io_kb_s_per_core double precision,   -- disk IO of its running jobs
    known_since timestamptz NOT NULL DEFAULT orrery_now(),   -- since when signs of life are noted
    statistics_version bigint NOT NULL DEFAULT 0   -- of the statistics, when they were last published
);

-- What became of jobs, by the hour: brokerage looks back six hours.
CREATE TABLE queue_outcomes (
    hour timestamptz NOT NULL,                 -- the hour's beginning
    queue text NOT NULL,                       -- at this queue
    gshare text NOT NULL,                      -- of this share
    task_id bigint NOT NULL,                   -- of this task
    n_started int NOT NULL DEFAULT 0,          -- began
    n_finished int NOT NULL DEFAULT 0,         -- finished
    n_failed int NOT NULL DEFAULT 0,           -- failed
    n_closed int NOT NULL DEFAULT 0,           -- were closed
    n_cancelled int NOT NULL DEFAULT 0,        -- were cancelled
    PRIMARY KEY (hour, queue, gshare, task_id)
) WITH (fillfactor = 70);
CREATE INDEX queue_outcomes_task ON queue_outcomes (task_id, hour);
CREATE INDEX queue_outcomes_queue ON queue_outcomes (queue, hour);

-- How long jobs waited, by the hour of their start: brokerage looks back four days. Sums, so that a weighted mean and
-- its confidence limit can be computed over any span of hours.
CREATE TABLE queue_waits (
    hour timestamptz NOT NULL,                 -- the hour's beginning
    queue text NOT NULL,                       -- at this queue
    gshare text NOT NULL,                      -- of this share
    job_type text NOT NULL,                    -- of this kind
    n_jobs int NOT NULL,                       -- jobs that began
    wait_s double precision NOT NULL,          -- the sum of their waiting times
    wait_squared_s2 double precision NOT NULL, -- the sum of the squares
    PRIMARY KEY (hour, queue, gshare, job_type)
) WITH (fillfactor = 70);

-- Pilots that got no job, by queue and by why: what a job that waits there is explained with.
CREATE TABLE pilots_without_a_job (
    queue text NOT NULL,                       -- at this queue
    why text NOT NULL,                         -- the kind of reason
    n_pilots bigint NOT NULL,                  -- how many
    reason text NOT NULL,                      -- what the last of them was told
    last_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    PRIMARY KEY (queue, why)
);
