-- name: next_version
-- Taken first: loads of a grid follow one another.
-- done for: OPERATORS
INSERT INTO versions (name, version, changed_at) VALUES (:name, 1, orrery_now())
ON CONFLICT (name) DO UPDATE SET version = versions.version + 1, changed_at = orrery_now()
RETURNING version;

-- name: upsert_sites
-- Sites of the new grid.
-- done for: OPERATORS
INSERT INTO sites (site, state, role, tier, data)
SELECT * FROM unnest(:names::text[], :states::text[], :roles::text[], :tiers::int[], :records::jsonb[])
ON CONFLICT (site) DO UPDATE
SET state = excluded.state, role = excluded.role, tier = excluded.tier, data = excluded.data;

-- name: upsert_queues
-- Queues of the new grid.
-- done for: OPERATORS
INSERT INTO queues (queue, site, status, type, data)
SELECT * FROM unnest(:names::text[], :sites::text[], :statuses::text[], :types::text[], :records::jsonb[])
ON CONFLICT (queue) DO UPDATE
SET site = excluded.site, status = excluded.status, type = excluded.type, data = excluded.data, updated_at = orrery_now();

-- name: upsert_storages
-- Storages of the new grid.
-- done for: OPERATORS
INSERT INTO storages (storage, site, type, is_tape, space_total_gb, space_free_gb, space_used_gb, space_expired_gb,
                      space_min_free_gb, space_unavailable_gb, space_timestamp, blacklisted_read, blacklisted_write,
                      detailed_status, data)
SELECT * FROM unnest(:names::text[], :sites::text[], :types::text[], :tapes::boolean[], :totals::float8[],
                     :frees::float8[], :useds::float8[], :expireds::float8[], :min_frees::float8[],
                     :unavailables::float8[], :times::timestamptz[], :read_blacklisted::boolean[],
                     :write_blacklisted::boolean[], :statuses::jsonb[], :records::jsonb[])
ON CONFLICT (storage) DO UPDATE
SET site = excluded.site, type = excluded.type, is_tape = excluded.is_tape, space_total_gb = excluded.space_total_gb,
    space_free_gb = excluded.space_free_gb, space_used_gb = excluded.space_used_gb,
    space_expired_gb = excluded.space_expired_gb, space_min_free_gb = excluded.space_min_free_gb,
    space_unavailable_gb = excluded.space_unavailable_gb, space_timestamp = excluded.space_timestamp,
    blacklisted_read = excluded.blacklisted_read, blacklisted_write = excluded.blacklisted_write,
    detailed_status = excluded.detailed_status, data = excluded.data;

-- name: forget_queues
-- Queues that the new grid does not have; how they were is kept for their jobs.
-- done for: OPERATORS
WITH gone AS (
    DELETE FROM queues WHERE queue <> ALL(:names::text[]) RETURNING queue, data
)
INSERT INTO absent_queues (queue, data) SELECT queue, data FROM gone
ON CONFLICT (queue) DO UPDATE SET data = excluded.data, absent_since = excluded.absent_since;

-- name: forget_absent_queues
-- Queues that are in the grid again, and those that nobody remembers.
-- done for: OPERATORS
DELETE FROM absent_queues
 WHERE queue = ANY(:names::text[]) OR absent_since < orrery_now() - make_interval(days => :kept_days::int);

-- name: forget_storages
-- Storages that the new grid does not have.
-- done for: OPERATORS
DELETE FROM storages WHERE storage <> ALL(:names::text[]);

-- name: forget_sites
-- Sites that the new grid does not have.
-- done for: OPERATORS
DELETE FROM sites WHERE site <> ALL(:names::text[]);

-- name: forget_network_metrics
-- All numbers of links, before the new ones are copied in.
-- done for: OPERATORS
DELETE FROM network_metrics;

-- name: forget_software_map
-- All that queues published about software, before the new map is written.
-- done for: OPERATORS
DELETE FROM software_map;

-- name: insert_software_map
-- What queues publish about software.
-- done for: OPERATORS
INSERT INTO software_map (queue, data) SELECT * FROM unnest(:names::text[], :records::jsonb[]);

-- name: forget_resource_types
-- All resource types, before the new ones are written.
-- done for: OPERATORS
DELETE FROM resource_types;

-- name: insert_resource_types
-- Resource types in the order in which they are matched.
-- done for: OPERATORS
INSERT INTO resource_types (resource_name, position, min_core, max_core, min_ram_per_core, max_ram_per_core)
SELECT * FROM unnest(:names::text[], :positions::int[], :min_cores::int[], :max_cores::int[], :min_rams::int[],
                     :max_rams::int[]);

-- name: upsert_shares
-- Parents and children in one statement. The correction factor of a share that stays is kept.
-- done for: OPERATORS
INSERT INTO shares (gshare, value, parent, prod_source_label, working_group, campaign, processing_type, trans_path,
                    resource_type, vo, throttled, stretchable, position)
SELECT * FROM unnest(:gshares::text[], :percents::float8[], :parents::text[], :prod_source_labels::text[],
                     :working_groups::text[], :campaigns::text[], :processing_types::text[], :trans_paths::text[],
                     :resource_types::text[], :vos::text[], :throttled::boolean[], :stretchable::boolean[])
       WITH ORDINALITY
ON CONFLICT (gshare) DO UPDATE
SET value = excluded.value, parent = excluded.parent, prod_source_label = excluded.prod_source_label,
    working_group = excluded.working_group, campaign = excluded.campaign, processing_type = excluded.processing_type,
    trans_path = excluded.trans_path, resource_type = excluded.resource_type, vo = excluded.vo,
    throttled = excluded.throttled, stretchable = excluded.stretchable, position = excluded.position;

-- name: forget_shares
-- Shares that the new tree does not have.
-- done for: OPERATORS
DELETE FROM shares WHERE gshare <> ALL(:names::text[]);

-- name: shares_in_use
-- Shares that live tasks have and the new tree would not.
SELECT gshare, count(*) AS n_tasks FROM tasks
WHERE gshare <> ALL(:names::text[]) AND EXISTS (SELECT FROM shares s WHERE s.gshare = tasks.gshare)
  AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
GROUP BY gshare ORDER BY gshare;

-- name: record_load
-- Who loaded a grid and what came of it, for people.
-- done for: OPERATORS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, 'grid load', 'grid', :outcome, :details);

-- name: cordon
-- Close a queue of the grid for new work, or say anew why; nothing for an unknown queue.
-- done for: OPERATORS
INSERT INTO queue_cordons (queue, reason, set_by) SELECT queue, :reason, :set_by FROM queues WHERE queue = :queue
ON CONFLICT (queue) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by, set_at = orrery_now()
RETURNING queue;

-- name: uncordon
-- Open a queue again; its name if it was cordoned.
-- done for: OPERATORS
DELETE FROM queue_cordons WHERE queue = :queue RETURNING queue;

-- name: record_cordon
-- Who closed or opened a queue, for people.
-- done for: OPERATORS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, :verb, :queue, 'accepted', :details);

-- name: list_queues
-- Queues with what is known of their load: those with a text in their name, site, status or type, or of one site, behind
-- a name, at most so many; by name, or those first that have most jobs in a state.
-- told by: STATES
WITH fitting AS (
    SELECT q.queue, q.site, f.data ->> 'status' AS status, q.type, f.data, f.cordon_reason, f.cordoned_by
      FROM queues q JOIN queues_in_force f USING (queue)
     WHERE (:site::text IS NULL OR q.site = :site) AND (:after::text IS NULL OR q.queue > :after)
       AND position(lower(:part) IN lower(concat_ws(' ', q.queue, q.site, f.data ->> 'status', q.type))) > 0),
loaded AS (
    SELECT queue, sum(n_jobs) AS n_jobs FROM queue_statistics WHERE status = :most_in::text GROUP BY queue),
wanted AS (
    SELECT * FROM fitting LEFT JOIN loaded USING (queue)
     ORDER BY n_jobs DESC NULLS LAST, queue LIMIT :at_most::bigint)
SELECT w.queue, w.site, w.status, w.type, CASE WHEN :records::boolean THEN w.data END AS data, w.cordon_reason,
       w.cordoned_by, a.last_pilot_at, a.last_job_start_at, a.running_workers, a.submitted_workers, a.n_slots,
       coalesce(s.jobs, '{}'::jsonb) AS jobs
  FROM wanted w LEFT JOIN queue_activity a USING (queue)
  LEFT JOIN LATERAL (
        SELECT jsonb_object_agg(status, n_jobs) AS jobs
          FROM (SELECT status, sum(n_jobs)::bigint AS n_jobs FROM queue_statistics of_queue
                 WHERE of_queue.queue = w.queue GROUP BY status) by_status
         WHERE n_jobs > 0) s ON true
 ORDER BY w.n_jobs DESC NULLS LAST, w.queue;

-- name: list_sites
-- Sites with their queues, storages, free space and jobs by state, for people: those with a text in their name, or one
-- alone, behind a name, at most so many.
-- told by: STATES
SELECT s.site, s.state, s.role, s.tier,
       coalesce(q.queues, '{}'::text[]) AS queues, coalesce(t.storages, '{}'::text[]) AS storages,
       coalesce(t.space_free_gb, 0) AS space_free_gb, coalesce(j.jobs, '{}'::jsonb) AS jobs
  FROM (SELECT site, state, role, tier FROM sites
         WHERE (:site::text IS NULL OR site = :site) AND (:after::text IS NULL OR site > :after)
           AND position(lower(:part) IN lower(site)) > 0
         ORDER BY site LIMIT :at_most::bigint) s
  LEFT JOIN (SELECT site, array_agg(queue ORDER BY queue) AS queues FROM queues GROUP BY site) q USING (site)
  LEFT JOIN (SELECT site, array_agg(storage ORDER BY storage) AS storages, sum(space_free_gb) AS space_free_gb
               FROM storages GROUP BY site) t USING (site)
  LEFT JOIN LATERAL (
        SELECT jsonb_object_agg(status, n_jobs) AS jobs
          FROM (SELECT of_queue.status, sum(of_queue.n_jobs)::bigint AS n_jobs
                  FROM queue_statistics of_queue WHERE of_queue.queue = ANY(q.queues) GROUP BY of_queue.status) by_status
         WHERE n_jobs > 0) j ON true
 ORDER BY s.site;

-- name: grid_version
-- The version of the grid and when it was loaded, for people.
-- told by: STATES
SELECT version, changed_at FROM versions WHERE name = 'grid';

-- name: network_age
-- How many numbers of links there are, and the age of the newest, for people.
-- told by: STATES
SELECT count(DISTINCT (source, destination)) AS n_links, count(*) AS n_metrics,
       extract(epoch FROM orrery_now() - max(measured_at))::float8 AS newest_age_s
FROM network_metrics;

-- name: queue_record
-- One queue as it was loaded; one that is cordoned is brokeroff.
-- told by: PUBLIC
SELECT data FROM queues_in_force WHERE queue = :queue;

-- name: queue_records
-- All queues as they were loaded; those that are cordoned are brokeroff.
-- told by: PUBLIC
SELECT queue, data FROM queues_in_force ORDER BY queue;

-- name: storage_records
-- All storages as they were loaded.
-- told by: PUBLIC
SELECT storage, data FROM storages ORDER BY storage;
