-- Work queues: whether one is throttled (JEDI: a share of NULL says that it is not).
ALTER TABLE work_queues ADD COLUMN throttled boolean NOT NULL DEFAULT true;

-- The work queue of a job is that of its task.
ALTER TABLE jobs ADD COLUMN work_queue_id int;
ALTER TABLE jobs_archive ADD COLUMN work_queue_id int;
CREATE INDEX jobs_work_queue ON jobs (work_queue_id, status) WHERE work_queue_id IS NOT NULL;

-- Users: groups, factors of quotas, and caps of their own (NULL: those that hold for everybody).
ALTER TABLE users ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
ALTER TABLE users ADD COLUMN quota double precision NOT NULL DEFAULT 0 CHECK (quota >= 0);
ALTER TABLE users ADD COLUMN priority_weight double precision NOT NULL DEFAULT 0 CHECK (priority_weight >= 0);
ALTER TABLE users ADD COLUMN cap_running_jobs int CHECK (cap_running_jobs > 0);
ALTER TABLE users ADD COLUMN cap_running_cores int CHECK (cap_running_cores > 0);
