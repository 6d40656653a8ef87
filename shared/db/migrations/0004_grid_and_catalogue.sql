-- The grid as loaded, its statistics, shares; and the built-in catalogue in a schema of its own.

CREATE TABLE sites (
    site text PRIMARY KEY,
    state text NOT NULL,
    role text NOT NULL CHECK (role IN ('nucleus', 'satellite')),
    tier int,
    data jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE queues (
    queue text PRIMARY KEY,
    site text NOT NULL REFERENCES sites,
    status text NOT NULL,
    type text NOT NULL CHECK (type IN ('production', 'analysis', 'unified')),
    data jsonb NOT NULL,                      -- the CRIC record, names and units unchanged
    updated_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE TABLE storages (
    storage text PRIMARY KEY,
    site text NOT NULL REFERENCES sites,
    type text NOT NULL,
    is_tape boolean NOT NULL DEFAULT false,
    space_total_gb double precision,
    space_free_gb double precision,
    space_used_gb double precision,
    space_expired_gb double precision,
    space_min_free_gb double precision,
    space_unavailable_gb double precision,
    space_timestamp timestamptz,
    blacklisted_read boolean NOT NULL DEFAULT false,
    blacklisted_write boolean NOT NULL DEFAULT false,
    detailed_status jsonb NOT NULL DEFAULT '{}',
    data jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE network_metrics (
    source text NOT NULL,
    destination text NOT NULL,
    key text NOT NULL,                        -- e.g. "Production Output_queued", "dashb_mbps_1h", "AGIS_closeness"
    value double precision NOT NULL,
    measured_at timestamptz NOT NULL,
    PRIMARY KEY (source, destination, key)
);
CREATE TABLE software_map (
    queue text PRIMARY KEY,                   -- "ALL" maps container names to source paths
    data jsonb NOT NULL
);
CREATE TABLE resource_types (
    resource_name text PRIMARY KEY,
    position int NOT NULL UNIQUE,             -- the first match wins
    min_core int,
    max_core int,
    min_ram_per_core int,
    max_ram_per_core int
);
INSERT INTO resource_types VALUES
    ('SCORE', 1, 1, 1, NULL, 2000), ('SCORE_HIMEM', 2, 1, 1, 2001, NULL),
    ('MCORE', 3, 2, NULL, NULL, 2000), ('MCORE_HIMEM', 4, 2, NULL, 2001, NULL);

CREATE TABLE queue_statistics (
    queue text NOT NULL,
    resource_type text NOT NULL,
    gshare text NOT NULL,
    user_name text NOT NULL,
    status text NOT NULL,
    n_jobs bigint NOT NULL,
    n_cores bigint NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (queue, resource_type, gshare, user_name, status)
) WITH (fillfactor = 50);

CREATE TABLE queue_activity (
    queue text PRIMARY KEY,
    last_pilot_at timestamptz,
    last_job_start_at timestamptz,
    running_workers int NOT NULL DEFAULT 0,
    submitted_workers int NOT NULL DEFAULT 0,
    n_slots int
);
CREATE TABLE workers (
    harvester_id text NOT NULL,
    worker_id bigint NOT NULL,
    queue text NOT NULL,
    status text NOT NULL,
    n_cores int NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (harvester_id, worker_id)
);
CREATE INDEX workers_queue ON workers (queue, status);

CREATE TABLE shares (
    gshare text PRIMARY KEY,
    value double precision NOT NULL CHECK (value >= 0),
    parent text REFERENCES shares,
    prod_source_label text,
    working_group text,
    campaign text,
    processing_type text,
    trans_path text,
    resource_type text,
    vo text,
    throttled boolean NOT NULL DEFAULT true,
    correction_factor double precision NOT NULL DEFAULT 1
);
CREATE TABLE usage_history (
    gshare text NOT NULL,
    user_name text NOT NULL DEFAULT '',
    at timestamptz NOT NULL,
    running_jobs int NOT NULL,
    running_cores int NOT NULL,
    PRIMARY KEY (gshare, user_name, at)
);
CREATE TABLE site_adverts (
    site text PRIMARY KEY,
    max_jobs int,
    max_submitting_jobs int,
    current_jobs int,
    current_submitting_jobs int,
    current_matches int NOT NULL DEFAULT 0,
    requirements text,
    advertisement jsonb NOT NULL DEFAULT '{}',
    advertised_at timestamptz NOT NULL DEFAULT orrery_now(),
    expires_at timestamptz NOT NULL
);
CREATE TABLE users (
    user_name text PRIMARY KEY,
    grid_pref text NOT NULL DEFAULT '',
    disk_quota_gb double precision,
    disk_used_gb double precision,
    data jsonb NOT NULL DEFAULT '{}'
);

CREATE SCHEMA catalogue;
CREATE TABLE catalogue.datasets (
    dataset_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text NOT NULL,
    name text NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('dataset', 'container')),
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'frozen')),
    n_files bigint NOT NULL DEFAULT 0,
    n_bytes bigint NOT NULL DEFAULT 0,
    n_events bigint NOT NULL DEFAULT 0,
    attributes jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE TABLE catalogue.containers (
    container_id bigint NOT NULL REFERENCES catalogue.datasets,
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,
    position int NOT NULL,
    PRIMARY KEY (container_id, dataset_id)
);
CREATE TABLE catalogue.files (
    file_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,
    scope text NOT NULL,
    lfn text NOT NULL,
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    n_events bigint CHECK (n_events >= 0),
    checksum text,
    guid text,
    lumi_block bigint,
    first_event bigint,
    UNIQUE (dataset_id, lfn)
);
CREATE INDEX files_lfn ON catalogue.files (lfn, scope);
CREATE TABLE catalogue.dataset_replicas (
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets,
    storage text NOT NULL,
    n_files bigint NOT NULL,
    n_bytes bigint NOT NULL,
    complete boolean NOT NULL,
    PRIMARY KEY (dataset_id, storage)
);
-- only for incomplete copies: a complete one needs no rows
CREATE TABLE catalogue.file_replicas (
    file_id bigint NOT NULL REFERENCES catalogue.files,
    storage text NOT NULL,
    PRIMARY KEY (file_id, storage)
);
