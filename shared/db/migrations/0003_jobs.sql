-- Chunks of input, the decisions about them, and jobs.

CREATE SEQUENCE chunk_ids;
CREATE TABLE chunks (
    chunk_id bigint PRIMARY KEY DEFAULT nextval('chunk_ids'),
    task_id bigint NOT NULL REFERENCES tasks,
    kind text NOT NULL CHECK (kind IN ('scout', 'normal', 'merge', 'build', 'preprocess')),
    status text NOT NULL CHECK (status IN ('offered', 'used', 'returned')),
    dataset_id bigint,                        -- the master dataset the files were picked from
    n_files int NOT NULL,
    n_events bigint NOT NULL DEFAULT 0,
    input_bytes bigint NOT NULL DEFAULT 0,
    queue text,                               -- pre-assigned (merge jobs go where the files are)
    priority int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    offered_at timestamptz NOT NULL DEFAULT orrery_now(),   -- last time it was offered
    ended_at timestamptz,
    n_jobs int NOT NULL DEFAULT 0,
    reason text
);
CREATE INDEX chunks_open ON chunks (offered_at) WHERE status = 'offered';
CREATE INDEX chunks_task ON chunks (task_id, status);

CREATE SEQUENCE decision_ids;
CREATE TABLE brokerage_decisions (
    decision_id bigint PRIMARY KEY DEFAULT nextval('decision_ids'),
    kind text NOT NULL CHECK (kind IN ('task', 'job')),
    task_id bigint NOT NULL,
    chunk_id bigint,
    decided_at timestamptz NOT NULL DEFAULT orrery_now(),
    plugin text NOT NULL,
    seed bigint NOT NULL,
    world_version bigint NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('chosen', 'none')),
    chosen text[] NOT NULL DEFAULT '{}',      -- best first
    retry_at timestamptz,
    summary jsonb NOT NULL,                   -- counts per check and tier, nearest miss
    names text[] NOT NULL,                    -- queues (QUEUE/TYPE) or nuclei, one place each in the arrays below
    codes smallint[] NOT NULL,                -- 0 passed, else the number of the check that excluded it
    found double precision[] NOT NULL,        -- the number found
    wanted double precision[] NOT NULL,       -- the number it was compared with
    weights double precision[] NOT NULL,      -- 0 where excluded
    terms jsonb NOT NULL DEFAULT '{}',        -- term name -> array of factors
    checks jsonb NOT NULL                     -- code -> check, tier, persistent, unit
);
CREATE INDEX brokerage_decisions_task ON brokerage_decisions (task_id, decision_id DESC);
CREATE INDEX brokerage_decisions_old ON brokerage_decisions (decided_at);

CREATE TABLE requirement_shapes (
    shape_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    prod_source_label text NOT NULL,
    resource_type text NOT NULL,
    core_count int NOT NULL,
    ram_mb int NOT NULL,
    disk_mb int NOT NULL,
    walltime_s int NOT NULL,
    UNIQUE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)
);

CREATE SEQUENCE job_ids;
-- Live jobs only; narrow; the one home of a job's status. No foreign key points here.
CREATE TABLE jobs (
    job_id bigint PRIMARY KEY,
    task_id bigint NOT NULL,
    chunk_id bigint NOT NULL,
    shape_id int NOT NULL,
    current_priority int NOT NULL,
    core_count smallint NOT NULL,
    attempt_number smallint NOT NULL,
    status text NOT NULL,
    queue text NOT NULL,
    resource_type text NOT NULL,
    gshare text NOT NULL,
    user_name text NOT NULL,
    prod_source_label text NOT NULL,
    job_type text NOT NULL CHECK (job_type IN ('scout', 'normal', 'merge', 'build', 'preprocess')),
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),
    state_change_time timestamptz NOT NULL DEFAULT orrery_now(),
    start_time timestamptz,
    end_time timestamptz,
    heartbeat_at timestamptz,
    results_applied_at timestamptz,
    worker text,                              -- the pilot that has it
    command text,                             -- to tell the pilot at its next report
    error_source text,                        -- pilot, payload, brokerage, dispatch, watchdog, user
    error_code int,
    error_dialog text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
-- a lane of the dispatcher, in the order it is served
CREATE INDEX jobs_lane ON jobs (queue, gshare, shape_id, (-current_priority), job_id) WHERE status = 'activated';
CREATE INDEX jobs_task ON jobs (task_id, status);
CREATE INDEX jobs_unapplied ON jobs (job_id)
    WHERE results_applied_at IS NULL AND status IN ('finished', 'failed', 'closed', 'cancelled');
CREATE INDEX jobs_archivable ON jobs (job_id) WHERE results_applied_at IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (status, state_change_time)
    WHERE status IN ('pending', 'waiting', 'defined', 'assigned', 'throttled', 'sent', 'starting', 'running', 'holding',
                     'transferring', 'merging');

CREATE TABLE job_specs (
    job_id bigint PRIMARY KEY,
    task_id bigint NOT NULL,
    spec jsonb NOT NULL                       -- as sent to the pilot, but for what is known only when it is taken
);

CREATE TABLE job_reports (
    job_id bigint PRIMARY KEY,
    attempt_number smallint NOT NULL,
    state text NOT NULL,
    report jsonb NOT NULL,                    -- the pilot's final report
    reported_at timestamptz NOT NULL DEFAULT orrery_now()
);

CREATE TABLE job_files (
    job_id bigint NOT NULL,
    file_id bigint NOT NULL,
    dataset_id bigint NOT NULL,
    task_id bigint NOT NULL,
    type text NOT NULL,                       -- the dataset's type
    is_master boolean NOT NULL DEFAULT false,
    attempt_nr int NOT NULL DEFAULT 0,        -- the file's attempt this job is
    PRIMARY KEY (job_id, file_id)
);
CREATE INDEX job_files_file ON job_files (file_id);

CREATE TABLE job_claims (
    request_key text PRIMARY KEY,
    job_id bigint NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX job_claims_old ON job_claims (claimed_at);

CREATE TABLE jobs_archive (
    LIKE jobs,
    archived_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (job_id, archived_at)
) PARTITION BY RANGE (archived_at);
CREATE TABLE jobs_archive_default PARTITION OF jobs_archive DEFAULT;
CREATE INDEX jobs_archive_task ON jobs_archive (task_id, status);
CREATE INDEX jobs_archive_job ON jobs_archive (job_id);

CREATE TABLE job_retry_history (
    task_id bigint NOT NULL,
    old_job_id bigint NOT NULL,
    new_job_id bigint NOT NULL,
    relation_type varchar(16) NOT NULL DEFAULT 'retry',
    origin_job_id bigint,
    PRIMARY KEY (new_job_id, old_job_id)
);
CREATE INDEX job_retry_history_old ON job_retry_history (old_job_id);
CREATE INDEX job_retry_history_task ON job_retry_history (task_id);

CREATE TABLE process_locks (
    prod_source_label varchar(20) NOT NULL,
    vo varchar(16) NOT NULL,
    work_queue_id int NOT NULL,
    cloud varchar(10),
    locked_by varchar(40) NOT NULL,
    locked_time timestamptz NOT NULL,
    PRIMARY KEY (prod_source_label, vo, work_queue_id)
);
COMMENT ON TABLE process_locks IS 'kept from the specification; leases (with a fencing term) do its work';

CREATE SEQUENCE transfer_ids;
CREATE TABLE transfers (
    transfer_id bigint PRIMARY KEY DEFAULT nextval('transfer_ids'),
    task_id bigint NOT NULL,
    job_id bigint NOT NULL,
    direction text NOT NULL CHECK (direction IN ('input', 'output')),
    activity text NOT NULL,
    source_storage text,
    destination_storage text NOT NULL,
    n_files int NOT NULL,
    n_bytes bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('requested', 'active', 'done', 'failed')),
    requested_at timestamptz NOT NULL DEFAULT orrery_now(),
    due_at timestamptz,
    completed_at timestamptz,
    error text
);
CREATE INDEX transfers_requested ON transfers (requested_at) WHERE status = 'requested';
CREATE INDEX transfers_due ON transfers (due_at) WHERE status = 'active';
CREATE INDEX transfers_job ON transfers (job_id);
