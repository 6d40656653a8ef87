-- Tasks, their datasets and files, and the log of every change of state.
-- Columns of the specification's tables keep their meaning; jeditaskid is task_id and pandaid is job_id everywhere.

CREATE TABLE allowed_transitions (
    entity text NOT NULL,
    from_status text NOT NULL DEFAULT '',  -- '' : insertion
    to_status text NOT NULL,
    PRIMARY KEY (entity, from_status, to_status)
);

CREATE TABLE transition_log (
    at timestamptz NOT NULL,
    entity text NOT NULL,
    entity_id bigint,
    entity_ids bigint[],
    task_id bigint,
    from_status text,
    to_status text NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL,
    cause_event_id bigint,
    CHECK ((entity_id IS NULL) <> (entity_ids IS NULL))
) PARTITION BY RANGE (at);
CREATE TABLE transition_log_default PARTITION OF transition_log DEFAULT;
CREATE INDEX transition_log_task ON transition_log (task_id, at);
CREATE INDEX transition_log_entity ON transition_log (entity, entity_id, at) WHERE entity_id IS NOT NULL;

CREATE SEQUENCE task_ids;

CREATE TABLE work_queues (
    queue_id int PRIMARY KEY,
    queue_name varchar(32) NOT NULL,
    queue_type varchar(16) NOT NULL,
    vo varchar(16) NOT NULL,
    queue_share double precision,
    queue_order int UNIQUE,
    criteria text,
    variables text,
    partition_id int,
    stretchable boolean NOT NULL DEFAULT false,
    status text NOT NULL DEFAULT 'active',
    queue_function text
);

CREATE TABLE tasks (
    task_id bigint PRIMARY KEY DEFAULT nextval('task_ids'),
    creation_date timestamptz NOT NULL DEFAULT orrery_now(),
    modification_time timestamptz NOT NULL DEFAULT orrery_now(),
    start_time timestamptz,
    end_time timestamptz,
    frozen_time timestamptz,
    prod_source_label varchar(20),
    task_name varchar(132) NOT NULL,
    user_name varchar(128) NOT NULL,
    working_group varchar(32),
    vo varchar(16),
    core_count int CHECK (core_count >= 0),
    task_type varchar(64),
    processing_type varchar(64),
    task_priority int,
    current_priority int NOT NULL DEFAULT 0,
    status varchar(64) NOT NULL,
    old_status varchar(64),
    architecture varchar(256),
    trans_uses varchar(64),
    trans_home varchar(128),
    trans_path varchar(128),
    locked_by varchar(40),
    locked_time timestamptz,
    term_condition varchar(100),
    split_rule jsonb NOT NULL DEFAULT '{}',
    walltime bigint,
    walltime_unit varchar(32),
    out_disk_count bigint,
    out_disk_unit varchar(32),
    work_disk_count bigint,
    work_disk_unit varchar(32),
    ram_count bigint,
    ram_unit varchar(32),
    io_intensity bigint,
    io_intensity_unit varchar(32),
    work_queue_id int REFERENCES work_queues,
    progress int,
    failure_rate int,
    error_dialog text,
    cloud varchar(10),
    site text,
    req_id bigint,
    country_group varchar(20),
    parent_tid bigint,
    event_service smallint NOT NULL DEFAULT 0,
    ticket_id varchar(50),
    ticket_system_type varchar(16),
    state_change_time timestamptz NOT NULL DEFAULT orrery_now(),
    super_status varchar(64),
    campaign varchar(32),
    merge_ram_count bigint,
    merge_ram_unit varchar(32),
    merge_walltime bigint,
    merge_walltime_unit varchar(32),
    throttled_time timestamptz,
    num_throttled int DEFAULT 0,
    merge_core_count int,
    goal int,
    assessment_time timestamptz,
    cpu_time bigint,
    cpu_time_unit varchar(32),
    cpu_efficiency int,
    base_walltime bigint,
    ami_flag varchar(10),
    nucleus varchar(52),
    base_ram_count bigint,
    rescue_time timestamptz,
    request_type varchar(32),
    use_jumbo char(1),
    disk_io bigint,
    disk_io_unit varchar(32),
    -- beyond the specification
    gshare text,
    resource_type text,
    max_attempt int NOT NULL DEFAULT 3 CHECK (max_attempt > 0),
    max_failure int CHECK (max_failure > 0),
    fixed_units text[] NOT NULL DEFAULT '{}',       -- columns whose unit said Fixed: scouts never overwrite them
    measured_units text[] NOT NULL DEFAULT '{}',    -- columns measured by scouts
    ip_connectivity text,
    container_name text,
    retry_at timestamptz,
    deadline_at timestamptz,
    command text,
    command_time timestamptz,
    command_details jsonb
) WITH (fillfactor = 80);
COMMENT ON COLUMN tasks.ami_flag IS 'kept from the specification; drives nothing';
COMMENT ON COLUMN tasks.super_status IS 'kept from the specification; drives nothing';
COMMENT ON COLUMN tasks.ticket_id IS 'kept from the specification; drives nothing';
COMMENT ON COLUMN tasks.ticket_system_type IS 'kept from the specification; drives nothing';
COMMENT ON COLUMN tasks.locked_by IS 'kept from the specification; compare-and-set and leases replace row locks';
COMMENT ON COLUMN tasks.locked_time IS 'kept from the specification; compare-and-set and leases replace row locks';
CREATE UNIQUE INDEX tasks_name ON tasks (task_name);
CREATE INDEX tasks_live ON tasks (status, current_priority DESC, task_id)
    WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
CREATE INDEX tasks_by_status ON tasks (status, task_type, current_priority DESC, task_id);
CREATE INDEX tasks_command ON tasks (task_id) WHERE command IS NOT NULL;
CREATE INDEX tasks_user ON tasks (user_name, status, current_priority DESC, task_id);
CREATE INDEX tasks_created ON tasks (creation_date);
CREATE INDEX tasks_retry ON tasks (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent_tid) WHERE parent_tid IS NOT NULL;
CREATE INDEX tasks_locked ON tasks (locked_time) WHERE locked_by IS NOT NULL;
CREATE INDEX tasks_nucleus ON tasks (nucleus) WHERE nucleus IS NOT NULL
    AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');

CREATE TABLE task_parameters (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    task_parameters jsonb NOT NULL
);

CREATE TABLE job_parameters_templates (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    job_parameters_template jsonb NOT NULL
);

CREATE SEQUENCE dataset_ids;
CREATE TABLE task_datasets (
    dataset_id bigint PRIMARY KEY DEFAULT nextval('dataset_ids'),
    dataset_name varchar(255) NOT NULL,
    container_name varchar(132),
    task_id bigint NOT NULL REFERENCES tasks,
    master_id bigint,
    provenance_id bigint,
    state varchar(20),                     -- as the catalogue has it: open or frozen
    state_check_time timestamptz,
    state_check_expiration timestamptz,
    n_files bigint NOT NULL DEFAULT 0,
    n_files_to_be_used bigint NOT NULL DEFAULT 0,   -- opened for use: scouts see only the first few
    n_files_used bigint NOT NULL DEFAULT 0,         -- input: picked, running, finished or failed
    n_files_finished bigint NOT NULL DEFAULT 0,
    n_files_failed bigint NOT NULL DEFAULT 0,
    n_files_on_hold bigint NOT NULL DEFAULT 0,      -- unmerged outputs waiting to be merged
    n_events bigint,
    n_events_to_be_used bigint,
    n_events_used bigint,                           -- events of the files counted in n_files_used
    status varchar(20) NOT NULL,
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),
    modification_time timestamptz NOT NULL DEFAULT orrery_now(),
    frozen_time timestamptz,
    type varchar(20) NOT NULL CHECK (type IN ('input', 'pseudo_input', 'pp_input', 'random_seed', 'lib', 'output', 'log',
        'tmpl_output', 'tmpl_log', 'trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log', 'tmpl_pp_log',
        'trn_unknown', 'in_constituent')),
    vo varchar(16),
    cloud varchar(10),
    site varchar(60),
    locked_by varchar(40),
    locked_time timestamptz,
    attributes jsonb NOT NULL DEFAULT '{}',
    stream_name varchar(20),
    storage_token varchar(100),
    destination varchar(60),
    template_id bigint,
    n_files_waiting bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX task_datasets_task ON task_datasets (task_id, type);
CREATE INDEX task_datasets_name ON task_datasets (dataset_name, type);
CREATE INDEX task_datasets_container ON task_datasets (container_name, type) WHERE container_name IS NOT NULL;
CREATE INDEX task_datasets_check ON task_datasets (state_check_time) WHERE state_check_expiration IS NOT NULL;
CREATE INDEX task_datasets_locked ON task_datasets (locked_time) WHERE locked_by IS NOT NULL;

CREATE SEQUENCE file_ids;
CREATE TABLE task_files (
    file_id bigint PRIMARY KEY DEFAULT nextval('file_ids'),
    dataset_id bigint NOT NULL REFERENCES task_datasets,
    task_id bigint NOT NULL,
    creation_date timestamptz NOT NULL DEFAULT orrery_now(),
    last_attempt_time timestamptz,
    lfn varchar(256) NOT NULL,
    guid varchar(64),
    type varchar(20) NOT NULL,
    fsize bigint CHECK (fsize >= 0),
    checksum varchar(36),
    scope varchar(30),
    status varchar(64) NOT NULL CHECK (status IN ('ready', 'pending', 'staging', 'missing', 'lost', 'broken', 'picked',
        'running', 'finished', 'failed', 'defined', 'prepared', 'merging', 'cancelled', 'nooutput')),
    attempt_nr int NOT NULL DEFAULT 0,
    max_attempt int,
    n_events bigint,
    keep_track boolean NOT NULL DEFAULT true,
    start_event bigint,
    end_event bigint,
    first_event bigint,
    boundary_id bigint,
    job_id bigint,                  -- the job that uses it
    failed_attempt int NOT NULL DEFAULT 0,
    lumi_block_nr bigint,
    out_job_id bigint,              -- the job that produced it
    max_failure int,
    is_waiting boolean NOT NULL DEFAULT false,
    jobset_id bigint,
    proc_status varchar(64),
    -- beyond the specification
    chunk_id bigint,                -- the chunk that picked it
    ram_count bigint,               -- MB, raised after a job ran out of memory
    CHECK (max_attempt IS NULL OR attempt_nr <= max_attempt)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX task_files_unit ON task_files (dataset_id, lfn, coalesce(start_event, -1));
CREATE INDEX task_files_state ON task_files (dataset_id, status, file_id);
CREATE INDEX task_files_task ON task_files (task_id, type, status);
CREATE INDEX task_files_job ON task_files (job_id) WHERE job_id IS NOT NULL AND status = 'running';
CREATE INDEX task_files_chunk ON task_files (chunk_id) WHERE status = 'picked';
CREATE INDEX task_files_lfn ON task_files (lfn, scope, type);
CREATE INDEX task_files_producer ON task_files (out_job_id) WHERE out_job_id IS NOT NULL;

CREATE TABLE output_templates (
    out_temp_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL REFERENCES tasks,
    dataset_id bigint NOT NULL REFERENCES task_datasets,
    file_name_template varchar(256) NOT NULL,
    source_name varchar(256),
    serial_nr bigint NOT NULL DEFAULT 1,       -- the next number to give
    max_serial_nr bigint,
    stream_name varchar(20),
    out_type varchar(20)
);
CREATE INDEX output_templates_task ON output_templates (task_id);

CREATE SEQUENCE event_range_ids;
CREATE TABLE event_ranges (
    event_range_id bigint PRIMARY KEY DEFAULT nextval('event_range_ids'),
    task_id bigint NOT NULL REFERENCES tasks,
    dataset_id bigint NOT NULL REFERENCES task_datasets,
    file_id bigint NOT NULL REFERENCES task_files,
    status smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 10),
    job_id bigint,
    job_process_id bigint NOT NULL DEFAULT 0,
    def_min_event_id bigint,
    def_max_event_id bigint,
    processed_up_to_event_id bigint,
    attempt_nr int NOT NULL DEFAULT 10 CHECK (attempt_nr >= 0),
    obj_store_id int,
    event_offset bigint,
    is_jumbo boolean NOT NULL DEFAULT false,
    zip_row_id bigint,
    file_not_deleted char(1),
    error_code int,
    path_convention int
);
CREATE INDEX event_ranges_task ON event_ranges (task_id, status);
CREATE INDEX event_ranges_job ON event_ranges (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX event_ranges_file ON event_ranges (file_id);
