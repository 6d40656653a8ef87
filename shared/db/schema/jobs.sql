-- Jobs: what one pilot runs. A job is never run again: the next attempt of its files is a new job.

-- What jobs require of a pilot: jobs of one shape fit the same pilots, and are in one lane of the dispatcher.
CREATE TABLE requirement_shapes (
    shape_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    prod_source_label text NOT NULL,           -- label
    resource_type text NOT NULL,               -- SCORE, MCORE, ...
    core_count int NOT NULL,                   -- cores
    ram_mb int NOT NULL,                       -- memory
    disk_mb int NOT NULL,                      -- disk
    walltime_s int NOT NULL,                   -- wall time
    is_urgent boolean NOT NULL DEFAULT false,  -- whoever fits takes a job before the order of shares is looked at
    vo text NOT NULL DEFAULT '',               -- VO: jobs of two are never in one lane; '': for every pilot
    CONSTRAINT requirement_shapes_are_one
        UNIQUE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo)
);
-- The first read of a queue asks which of its shares have urgent work: by this index, however many shapes there are.
CREATE INDEX requirement_shapes_urgent ON requirement_shapes (shape_id) WHERE is_urgent;

-- Ids of jobs.
CREATE SEQUENCE job_ids;

-- How long jobs are in each state before time-out rules are asked about them for the first time: never longer than the
-- shortest limit in force. The watchdog writes it when rules, parameters or queues change; whoever changes the state of a
-- job writes its deadline_at by it. Who is asked too early is asked again at the time that the rules name then.
CREATE TABLE job_deadlines (
    status text PRIMARY KEY,                   -- the state
    after_change interval NOT NULL DEFAULT '1 minute',   -- since it came into the state
    after_creation interval                    -- since it was made; NULL: no rule is about that
);
INSERT INTO job_deadlines (status)
VALUES ('pending'), ('waiting'), ('defined'), ('assigned'), ('activated'), ('throttled'), ('sent'), ('starting'),
       ('running'), ('holding'), ('transferring'), ('merging');

-- When time-out rules are asked about a job that changes its state now; NULL, NULL: never, for it ended.
CREATE FUNCTION orrery_deadline(after_change interval, after_creation interval, created timestamptz)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least(orrery_now() + after_change, created + after_creation)
$$;

-- What the jobs were judged by when rules were last asked of all of them, and how far those are whom a change concerns.
CREATE TABLE deadline_basis (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),   -- one row
    states jsonb NOT NULL,                     -- of each state: a digest of the rules and limits
    queues jsonb NOT NULL,                     -- of each queue: a digest of what rules ask of it
    moved_states text[] NOT NULL DEFAULT '{}', -- states of which a rule or a limit changed
    moved_queues text[] NOT NULL DEFAULT '{}', -- queues that changed
    moved_to bigint                            -- jobs up to this id were asked about since; NULL: all were
);

-- What a text of an error has in common with others of its kind: words with a digit or an inner dot, what stands between
-- quotation marks, and lists of these are #.
CREATE FUNCTION orrery_error_kind(dialog text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT regexp_replace(
               regexp_replace(dialog, '(?<!\w)''[^'']*(''|$)|\S*(\d|\.[^\s;,])[^\s;,]*', '#', 'g'),
               '#((,| and)? #( more)?)*', '#', 'g')
$$;

-- Queues that have too many waiting jobs of a share, as they were judged last: what is still to be sent elsewhere. A row
-- leaves when that is done.
CREATE TABLE overloads (
    queue text NOT NULL,                       -- the queue
    gshare text NOT NULL,                      -- the share
    n_excess int NOT NULL,                     -- jobs that were too many
    n_left int NOT NULL,                       -- of those, jobs that are still to go
    reason text NOT NULL,                      -- by which numbers
    judged_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    place int NOT NULL,                        -- in which order they go
    PRIMARY KEY (queue, gshare)
);

-- Live jobs only; narrow; the one home of a job's status. No foreign key points here.
CREATE TABLE jobs (
    job_id bigint PRIMARY KEY,                 -- its id
    task_id bigint NOT NULL,                   -- its task
    chunk_id bigint NOT NULL,                  -- the chunk it was made of
    shape_id int NOT NULL,                     -- what it requires of a pilot
    current_priority int NOT NULL,             -- priority in its lane
    core_count smallint NOT NULL,              -- cores
    attempt_number smallint NOT NULL,          -- the attempt of its files that it is
    status text NOT NULL,                      -- state of shared/states/job.py
    queue text,                                -- its queue; NULL: it stands for a job set that no queue takes yet
    resource_type text NOT NULL,               -- SCORE, MCORE, ...
    gshare text NOT NULL,                      -- its share
    user_name text NOT NULL,                   -- the owner of its task
    prod_source_label text NOT NULL,           -- label
    job_type text NOT NULL CHECK (job_type IN ('scout', 'normal', 'merge', 'build', 'preprocess', 'jumbo')),   -- kind
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),       -- when it was made
    state_change_time timestamptz NOT NULL DEFAULT orrery_now(),   -- of the last change of state
    start_time timestamptz,                    -- when it began to run
    end_time timestamptz,                      -- when it ended
    heartbeat_at timestamptz,                  -- of the pilot's last report
    results_applied_at timestamptz,            -- when its files were counted; NULL: not yet
    worker text,                               -- the pilot that has it
    command text,                              -- to tell the pilot at its next report
    error_source text,                         -- pilot, payload, brokerage, dispatch, watchdog, catalogue, user
    error_code int,                            -- the code that the source has for it
    error_dialog text,                         -- what went wrong, for people
    order_key_id int NOT NULL DEFAULT 0,       -- the order key it is served by; 0: its share alone decides
    work_queue_id int,                         -- the work queue of its task
    deadline_at timestamptz DEFAULT orrery_now() + interval '1 minute',   -- when time-out rules are asked; NULL: it ended
    CONSTRAINT jobs_without_queue_wait CHECK (queue IS NOT NULL OR status IN
        ('waiting', 'merging', 'finished', 'failed', 'closed', 'cancelled'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
-- a lane of the dispatcher, in the order it is served
CREATE INDEX jobs_lane ON jobs (queue, gshare, order_key_id, shape_id, (-current_priority), job_id)
    WHERE status = 'activated';
-- how many jobs of each task queue wait, and whether one has jobs at all; jobs without a task queue are not in it
CREATE INDEX jobs_order_key ON jobs (order_key_id, status) WHERE order_key_id <> 0;
-- what runs at the queues of a site, of VOs with task queues
CREATE INDEX jobs_running_with_order_key ON jobs (queue, order_key_id)
    WHERE order_key_id <> 0 AND status IN ('sent', 'starting', 'running');
-- and the queues where a task has jobs, one after the other: it may have a million
CREATE INDEX jobs_task ON jobs (task_id, status, queue);
-- live jobs of a queue: they are counted queue by queue, never all at once
CREATE INDEX jobs_live ON jobs (queue, status) WHERE status NOT IN ('finished', 'failed', 'closed', 'cancelled');
-- scout jobs of a task are counted again and again while it is scouting; there are few of them
CREATE INDEX jobs_scouts ON jobs (task_id) WHERE job_type = 'scout';
-- analysis that was made together for a queue: it is sent elsewhere together
CREATE INDEX jobs_groups ON jobs (queue, chunk_id, job_id) WHERE orrery_is_analysis(NULL, prod_source_label);
CREATE INDEX jobs_without_queue ON jobs (task_id) WHERE queue IS NULL AND status = 'waiting';
CREATE INDEX jobs_work_queue ON jobs (work_queue_id, status) WHERE work_queue_id IS NOT NULL;
CREATE INDEX jobs_unapplied ON jobs (task_id)
    WHERE results_applied_at IS NULL AND status IN ('finished', 'failed', 'closed', 'cancelled');
-- jobs that were counted: whose task may be idle now, and who leaves for the archive
CREATE INDEX jobs_applied ON jobs (results_applied_at) WHERE results_applied_at IS NOT NULL;
-- whom time-out rules are asked about now
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL;
-- states that should pass by themselves; no claim and no running job enters one
CREATE INDEX jobs_passing ON jobs (status, state_change_time)
    WHERE status IN ('pending', 'defined', 'assigned', 'holding', 'transferring', 'merging');
CREATE INDEX jobs_merging ON jobs (queue, creation_time)
    WHERE job_type = 'merge' AND status IN ('activated', 'starting');

CREATE TRIGGER jobs_transitions AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_jobs();
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('job');

-- What a pilot is told of its job.
CREATE TABLE job_specs (
    job_id bigint PRIMARY KEY,                 -- the job
    task_id bigint NOT NULL,                   -- its task
    spec json NOT NULL,                        -- the text as it was made, but for what is known only when it is taken
    -- whose secrets go with the job: known beside the text, so that nothing has to be read in it
    secrets_of text GENERATED ALWAYS AS (
        CASE WHEN strpos(spec::text, '"useSecrets"') > 0 AND spec ->> 'useSecrets' = 'True'
             THEN coalesce(spec ->> 'prodUserID', '') END) STORED,
    -- where in the text the permission to fetch its archives goes, known when the text is made; NULL: nowhere, or the
    -- text must be read for it
    source_spots int[]
);

-- What the pilot of a running job said last; replaced in place, so no other index. Nothing is decided by it, and pilots say
-- it again: it is not in the WAL, and a server that was killed begins without.
CREATE UNLOGGED TABLE job_progress (
    job_id bigint PRIMARY KEY,                 -- the job
    progress jsonb NOT NULL,                   -- node, sub status, times, metrics
    reported_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
) WITH (fillfactor = 70);

-- The end of a payload's output, which pilots send in debug mode.
CREATE TABLE job_stdout (
    job_id bigint PRIMARY KEY,                 -- the job
    stdout text NOT NULL,                      -- the output
    reported_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);
CREATE INDEX job_stdout_old ON job_stdout (reported_at);

-- The pilot's final report of a job.
CREATE TABLE job_reports (
    job_id bigint PRIMARY KEY,                 -- the job
    attempt_number smallint NOT NULL,          -- the attempt that the pilot names
    state text NOT NULL,                       -- finished or failed, as the pilot says; late: its log, after the end of the job
    report jsonb NOT NULL,                     -- the report
    reported_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Which files a job works on.
CREATE TABLE job_files (
    job_id bigint NOT NULL,                    -- the job
    file_id bigint NOT NULL,                   -- the file
    dataset_id bigint NOT NULL,                -- its dataset
    task_id bigint NOT NULL,                   -- its task
    type text NOT NULL,                        -- the dataset's type
    is_master boolean NOT NULL DEFAULT false,  -- whether it is of a master dataset
    attempt_nr int NOT NULL DEFAULT 0,         -- the file's attempt this job is
    PRIMARY KEY (job_id, file_id)
);
CREATE INDEX job_files_file ON job_files (file_id);

-- Which job follows which.
CREATE TABLE job_retry_history (
    task_id bigint NOT NULL,                   -- their task
    old_job_id bigint NOT NULL,                -- the job before
    new_job_id bigint NOT NULL,                -- the job after
    relation_type varchar(16) NOT NULL DEFAULT 'retry',   -- retry, or merge of what the older job made
    origin_job_id bigint,                      -- the first of the row
    PRIMARY KEY (new_job_id, old_job_id)
);
CREATE INDEX job_retry_history_old ON job_retry_history (old_job_id);
CREATE INDEX job_retry_history_task ON job_retry_history (task_id);

-- Whether a merge job merges what nobody waits for: of the jobs that wrote its input none waits to be merged, and none
-- changed since a time. A job that merges no outputs of jobs does not.
CREATE FUNCTION orrery_merges_for_nobody(merging bigint, before timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM job_files o WHERE o.job_id = merging AND o.type IN ('trn_output', 'trn_log'))
       AND NOT EXISTS (SELECT FROM job_files o JOIN task_files f USING (file_id) JOIN jobs p ON p.job_id = f.out_job_id
                        WHERE o.job_id = merging AND o.type IN ('trn_output', 'trn_log')
                          AND (p.status = 'merging' OR p.state_change_time >= before))
$$;
