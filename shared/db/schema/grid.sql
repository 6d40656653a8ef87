-- The grid as it was loaded (CRIC), and what operators, sites and Harvester say of it.

-- Sites: where queues and storages are.
CREATE TABLE sites (
    site text PRIMARY KEY,                     -- its name
    state text NOT NULL,                       -- ACTIVE, or why not
    role text NOT NULL CHECK (role IN ('nucleus', 'satellite')),   -- whether it holds outputs of tasks
    tier int,                                  -- 0, 1, 2
    data jsonb NOT NULL DEFAULT '{}'           -- the CRIC record, names and units unchanged
);

-- Queues: where pilots of one kind run.
CREATE TABLE queues (
    queue text PRIMARY KEY,                    -- its name
    site text NOT NULL REFERENCES sites,       -- of this site
    status text NOT NULL,                      -- online, test, standby, brokeroff, offline, as it was loaded
    type text NOT NULL CHECK (type IN ('production', 'analysis', 'unified')),   -- which work it takes
    data jsonb NOT NULL,                       -- the CRIC record, names and units unchanged
    updated_at timestamptz NOT NULL DEFAULT orrery_now()   -- when it was loaded last
);

-- Queues that an operator closed for new work. A grid that is loaded later does not open them.
CREATE TABLE queue_cordons (
    queue text PRIMARY KEY,                    -- the queue
    reason text NOT NULL,                      -- why
    set_by text NOT NULL,                      -- by whom
    set_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Queues that left the grid, as they were: their jobs keep the limits and exemptions until it is known what became of it.
CREATE TABLE absent_queues (
    queue text PRIMARY KEY,                    -- the queue
    data jsonb NOT NULL,                       -- its last CRIC record
    absent_since timestamptz NOT NULL DEFAULT orrery_now()   -- when it left
);

-- Queues as they are to be read: a cordoned one that would take work is brokeroff.
CREATE VIEW queues_in_force AS
SELECT q.queue, c.reason AS cordon_reason, c.set_by AS cordoned_by,
       CASE WHEN c.queue IS NOT NULL AND q.data ->> 'status' IN ('online', 'standby', 'test')
            THEN q.data || '{"status": "brokeroff"}'::jsonb ELSE q.data END AS data
  FROM queues q LEFT JOIN queue_cordons c USING (queue);

-- Storages: where files are.
CREATE TABLE storages (
    storage text PRIMARY KEY,                  -- its name (RSE)
    site text NOT NULL REFERENCES sites,       -- of this site
    type text NOT NULL,                        -- DATADISK, SCRATCHDISK, DATATAPE, ...
    is_tape boolean NOT NULL DEFAULT false,    -- files must be staged before they are read
    space_total_gb double precision,           -- in all
    space_free_gb double precision,            -- free
    space_used_gb double precision,            -- used
    space_expired_gb double precision,         -- used by what may be deleted
    space_min_free_gb double precision,        -- to be kept free
    space_unavailable_gb double precision,     -- neither free nor used
    space_timestamp timestamptz,               -- when that was measured
    blacklisted_read boolean NOT NULL DEFAULT false,    -- nothing can be read from it now
    blacklisted_write boolean NOT NULL DEFAULT false,   -- nothing can be written to it now
    detailed_status jsonb NOT NULL DEFAULT '{}',        -- by activity, as CRIC has it
    data jsonb NOT NULL DEFAULT '{}'           -- the CRIC record, names and units unchanged
);

-- What is known of the network between sites or storages.
CREATE TABLE network_metrics (
    source text NOT NULL,                      -- from
    destination text NOT NULL,                 -- to
    key text NOT NULL,                         -- e.g. "Production Output_queued", "dashb_mbps_1h", "AGIS_closeness"
    value double precision NOT NULL,           -- the number, in the unit that the key names
    measured_at timestamptz NOT NULL,          -- when
    PRIMARY KEY (source, destination, key)
);

-- What is installed at queues.
CREATE TABLE software_map (
    queue text PRIMARY KEY,                    -- "ALL" maps container names to source paths
    data jsonb NOT NULL                        -- architectures, releases, containers, as CRIC has them
);

-- Classes of jobs by cores and memory.
CREATE TABLE resource_types (
    resource_name text PRIMARY KEY,            -- SCORE, MCORE, ...
    position int NOT NULL UNIQUE,              -- the first match wins
    min_core int, max_core int,                -- how many cores a job has; NULL: no limit
    min_ram_per_core int, max_ram_per_core int   -- how much memory for each core, in MB; NULL: no limit
);
INSERT INTO resource_types (resource_name, position, min_core, max_core, min_ram_per_core, max_ram_per_core) VALUES
    ('SCORE', 1, 1, 1, NULL, 2000), ('SCORE_HIMEM', 2, 1, 1, 2001, NULL),
    ('MCORE', 3, 2, NULL, NULL, 2000), ('MCORE_HIMEM', 4, 2, NULL, 2001, NULL);

-- What sites advertise of themselves (SAM-Grid), believed for some minutes.
CREATE TABLE site_adverts (
    site text PRIMARY KEY,                     -- the site
    max_jobs int,                              -- how many jobs it takes
    max_submitting_jobs int,                   -- how many may be on their way to it
    current_jobs int,                          -- how many it has
    current_submitting_jobs int,               -- how many are on their way
    current_matches int NOT NULL DEFAULT 0,    -- current_jobs, and jobs that were matched to it since
    requirements text,                         -- the ClassAd expression that jobs must satisfy
    advertisement jsonb NOT NULL DEFAULT '{}', -- all that it said
    advertised_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    expires_at timestamptz NOT NULL            -- until when it is believed
);

-- Slots that Harvester set for queues.
CREATE TABLE queue_slots (
    queue text NOT NULL,                       -- the queue
    resource_type text NOT NULL DEFAULT '',    -- for jobs of this type; '': for the whole queue
    n_slots int NOT NULL CHECK (n_slots >= 0), -- how many
    valid_until timestamptz,                   -- until when; NULL: until they are set again
    PRIMARY KEY (queue, resource_type)
);

-- What of it holds now, one row for each queue.
CREATE VIEW valid_queue_slots AS
SELECT queue, max(n_slots) FILTER (WHERE resource_type = '') AS n_slots,
       coalesce(jsonb_object_agg(resource_type, n_slots) FILTER (WHERE resource_type <> ''), '{}') AS slots_of_type,
       sum(n_slots)::int AS n_slots_in_all
FROM queue_slots
WHERE valid_until IS NULL OR valid_until > orrery_now()
GROUP BY queue;

-- Batch jobs that Harvester submitted for pilots. Factories of two VOs may count alike: a number is of one VO.
CREATE TABLE workers (
    harvester_id text NOT NULL,                -- which Harvester
    worker_id bigint NOT NULL,                 -- its number for the worker
    queue text NOT NULL,                       -- at this queue
    status text NOT NULL,                      -- submitted, running, finished, ...
    n_cores int NOT NULL DEFAULT 1,            -- how many cores it has
    updated_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was last reported
    subject text,                              -- whose token reported it first: nobody else may; NULL: not noted
    vo text NOT NULL DEFAULT '',               -- of this VO; '': its factory acts for several, and no pilot began it
    PRIMARY KEY (harvester_id, worker_id, vo)
);
CREATE INDEX workers_queue ON workers (queue, status);

-- What pilots say of the machines that they run on.
CREATE TABLE worker_nodes (
    site text NOT NULL,                        -- at this site
    host_name text NOT NULL,                   -- the machine
    kind text NOT NULL CHECK (kind IN ('node', 'gpu')),   -- the machine, or a GPU of it
    item text NOT NULL DEFAULT '',             -- tells GPUs of a machine apart
    data jsonb NOT NULL,                       -- what was said
    seen_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when last
    PRIMARY KEY (site, host_name, kind, item)
);
CREATE INDEX worker_nodes_old ON worker_nodes (seen_at);
