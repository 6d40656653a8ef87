-- How input becomes jobs: decisions about a task's generation, the gates of shares, rules about failures, builds.

-- Why a task's generation last went on or was held back: the latest decision of each task, by which the system works.
CREATE TABLE generation_decisions (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    outcome text NOT NULL CHECK (outcome IN ('pass', 'throttled', 'unplaceable', 'unsplittable', 'scouts', 'broken',
        'exhausted', 'retry')),                -- what
    reason text NOT NULL,                      -- why
    numbers jsonb NOT NULL DEFAULT '{}',       -- what was compared
    retry_at timestamptz                       -- when it is tried again
);

-- The last 20 decisions of each task, for people. Waits of one kind that follow each other are one row.
CREATE TABLE generation_history (
    decision_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL,                   -- the task
    first_at timestamptz NOT NULL DEFAULT orrery_now(),   -- since when
    last_at timestamptz NOT NULL DEFAULT orrery_now(),    -- until when
    n_times int NOT NULL DEFAULT 1,            -- how often
    outcome text NOT NULL,                     -- what
    reason text NOT NULL,                      -- why, the last time
    numbers jsonb NOT NULL DEFAULT '{}'        -- what was compared, the last time
);
CREATE INDEX generation_history_task ON generation_history (task_id, decision_id);

-- One gate for each share, or work queue that is throttled by itself, and resource type: whoever offers input holds its
-- row, so that every generator goes by the same counts and serves tasks in the same order.
CREATE TABLE generation_gates (
    gshare text NOT NULL,                      -- the share
    resource_type text NOT NULL,               -- the resource type
    work_queue_id int NOT NULL DEFAULT 0,      -- the work queue; 0: of a share
    counted_at timestamptz,                    -- when jobs were counted
    by_status jsonb NOT NULL DEFAULT '{}',     -- jobs by state as they were counted, and those that were offered since
    n_tasks int NOT NULL DEFAULT 0,            -- the cycle: tasks that were served in it
    n_super_high int NOT NULL DEFAULT 0,       -- those of them with super-high priority
    by_group jsonb NOT NULL DEFAULT '{}',      -- how many of each group
    PRIMARY KEY (gshare, resource_type, work_queue_id)
);

-- Tasks of which ends of jobs were counted, until what follows is settled: a row of each transaction that counted some.
CREATE TABLE dirty_tasks (
    dirty_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL,                   -- the task
    counted_at timestamptz NOT NULL DEFAULT orrery_now(),  -- when
    told_at timestamptz NOT NULL DEFAULT orrery_now()   -- when an event last said so
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX dirty_tasks_task ON dirty_tasks (task_id);

-- How far the audit of counters is.
CREATE TABLE counter_audits (
    kind text PRIMARY KEY,                     -- of datasets of live tasks, of tasks that ended, or of job sets
    began_at timestamptz,                      -- when the round began
    after_at timestamptz NOT NULL DEFAULT orrery_now() - interval '1 day',   -- tasks that ended until then were compared
    after_task bigint NOT NULL DEFAULT 0,      -- tasks up to this one were compared in this round; 0: it is over
    after_id bigint NOT NULL DEFAULT 0,        -- and of this one, datasets or job sets up to this
    audited_at timestamptz                     -- when a slice was last compared
);

-- Datasets of so many files that these are counted in parts, beside the others.
CREATE TABLE counter_audit_parts (
    dataset_id bigint PRIMARY KEY,             -- the dataset
    task_id bigint NOT NULL,                   -- its task
    noted_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was found
    said bigint[] NOT NULL,                    -- what its counters said then: files used, finished, failed
    counts jsonb NOT NULL DEFAULT '{}',        -- files by state, of those that were counted
    after_file_id bigint NOT NULL DEFAULT 0,   -- files up to this one were counted
    is_suspect boolean NOT NULL DEFAULT false, -- all were counted, and the counters say something else
    tried_at timestamptz                       -- when it was to be counted as a whole
);

-- Tasks that a gate holds and that could go on at once; `cap`: which gate, by the name that its wait has for it.
CREATE VIEW waiting_at_gates AS
SELECT t.task_id, t.gshare, t.resource_type, t.work_queue_id, t.current_priority, t.user_name, t.working_group, w.since,
       w.n_jobs, w.woken_at, w.causes #>> '{caps,0,0}' AS cap
  FROM tasks t JOIN waits w USING (task_id)
 WHERE t.status IN ('ready', 'scouting', 'running') AND t.retry_at > orrery_now()
   AND w.kind = 'share' AND w.placed_at IS NULL AND w.retry_at > orrery_now()
   AND (w.not_before IS NULL OR w.not_before <= orrery_now())
   AND NOT EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered')
   AND EXISTS (SELECT FROM task_datasets d WHERE d.task_id = t.task_id AND d.master_id IS NULL
                  AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.status = 'ready'
                  AND least(d.n_files_to_be_used, d.n_files) > d.n_files_used
                  AND EXISTS (SELECT FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.status = 'ready'));

-- Rules about errors of jobs (PanDA: job retry rules): what is done before their input is tried again.
CREATE TABLE retry_rules (
    rule_id int PRIMARY KEY CHECK (rule_id > 0),   -- its number
    source text NOT NULL CHECK (source IN ('pilot', 'payload', 'transformation', 'system')),   -- whose error
    code int,                                  -- the error's code; NULL: any
    pattern text,                              -- a regular expression that its text matches; NULL: any
    action text NOT NULL CHECK (action IN ('no_retry', 'limit_retry', 'increase_memory', 'increase_memory_xtimes',
        'increase_cputime', 'reduce_input_per_job', 'other_site', 'broken_input')),   -- what is done
    parameters jsonb NOT NULL DEFAULT '{}',    -- of the action
    architecture text,                         -- for jobs of this architecture; NULL: any
    release text,                              -- for jobs of this release; NULL: any
    work_queue_id int,                         -- for jobs of this work queue; NULL: any
    expires_at timestamptz,                    -- until when it holds; NULL: for ever
    is_active boolean NOT NULL DEFAULT true,   -- false: it is only noted what it would do
    note text NOT NULL DEFAULT ''              -- what it is for
);
-- What holds from the start: the pilot's codes for a payload without memory, and for input whose checksum or size is
-- not that of the catalogue. One site's copy may be bad where the file is good: the second attempt is believed.
INSERT INTO retry_rules (rule_id, source, code, action, parameters, note) VALUES
    (1, 'pilot', 1212, 'increase_memory', '{}', 'the payload ran out of memory'),
    (2, 'pilot', 1223, 'increase_memory', '{}', 'the payload exceeded its memory'),
    (3, 'pilot', 1235, 'increase_memory', '{}', 'the batch system ended the job for its memory'),
    (4, 'pilot', 1145, 'broken_input', '{"fromAttempt": 2}', 'stage-in: the file is not as the catalogue says'),
    (5, 'pilot', 1171, 'broken_input', '{"fromAttempt": 2}', 'stage-in: the checksum is not that of the catalogue');

-- Which rule decided about a job that failed, for people who ask; kept as long as the texts of jobs.
CREATE TABLE retry_decisions (
    job_id bigint PRIMARY KEY,                 -- the job
    task_id bigint NOT NULL,                   -- its task
    rule_id int NOT NULL,                      -- the rule
    action text NOT NULL,                      -- what it does
    is_active boolean NOT NULL,                -- whether that was done
    reason text NOT NULL,                      -- what came of it
    decided_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);
CREATE INDEX retry_decisions_task ON retry_decisions (task_id, rule_id);
CREATE INDEX retry_decisions_age ON retry_decisions (decided_at);

-- Build jobs: what a task's sources are compiled to, once for each site.
CREATE TABLE builds (
    task_id bigint NOT NULL,                   -- the task
    site text NOT NULL,                        -- the site
    job_id bigint,                             -- the build job that is under way
    file_id bigint,                            -- the library, once it is made
    n_failures integer NOT NULL DEFAULT 0,     -- build jobs that failed
    PRIMARY KEY (task_id, site)
);
