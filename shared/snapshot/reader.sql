-- name: versions
-- The numbers that tell whether the grid or the statistics changed.
-- told by: STATES
SELECT coalesce(max(version) FILTER (WHERE name = 'grid'), 0) AS grid,
       coalesce(max(version) FILTER (WHERE name = 'statistics'), 0) AS statistics, orrery_now() AS now
FROM versions WHERE name IN ('grid', 'statistics');

-- name: sites
-- All sites as loaded.
-- told by: STATES
SELECT site, data FROM sites ORDER BY site;

-- name: queues
-- All queues as loaded; those that are cordoned are brokeroff.
-- told by: STATES
SELECT queue, data FROM queues_in_force ORDER BY queue;

-- name: storages
-- All storages as loaded.
-- told by: STATES
SELECT storage, data FROM storages ORDER BY storage;

-- name: network_metrics
-- All numbers of all links: tens of thousands of rows, read once per version of the grid.
-- told by: STATES
SELECT source, destination, key, value, measured_at FROM network_metrics;

-- name: software_map
-- What queues publish about their software.
-- told by: STATES
SELECT queue, data FROM software_map ORDER BY queue;

-- name: resource_types
-- The resource types, in the order in which they are matched.
-- told by: STATES
SELECT resource_name, min_core, max_core, min_ram_per_core, max_ram_per_core FROM resource_types ORDER BY position;

-- name: job_counts
-- Jobs by queue, resource type, state and VO; all queues if none are named. Moves are folded in any order: a count may be
-- below nothing for a moment, and then is none.
-- told by: STATES
SELECT queue, resource_type, status, sum(n_jobs)::bigint AS n_jobs, vo
FROM queue_statistics
WHERE (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
GROUP BY queue, resource_type, status, vo
HAVING sum(n_jobs) > 0;

-- name: changed_since
-- Queues whose statistics were published after a version.
-- told by: STATES
SELECT queue FROM queue_activity WHERE statistics_version > :version ORDER BY queue;

-- name: activities
-- Activity of queues and their slots; all queues if none are named.
-- told by: STATES
SELECT queue, last_pilot_at, last_job_start_at, running_workers, submitted_workers, slots.n_slots,
       mean_disk_io_kb_s_per_core, known_since, coalesce(slots.slots_of_type, '{}') AS slots_of_type
FROM queue_activity LEFT JOIN valid_queue_slots slots USING (queue)
WHERE (:queues::text[] IS NULL OR queue = ANY(:queues::text[]));

-- name: settled_chunks
-- Of these chunks, the ones whose jobs were counted and published, those that made none, and those whose jobs were made
-- a while ago and wait no more: the event that has them counted was lost. Primary keys, and index jobs_task for the last.
-- told by: STATES
SELECT chunk_id FROM counted_chunks WHERE chunk_id = ANY(:chunk_ids::bigint[]) AND counted_at < :counted_before
UNION
SELECT chunk_id FROM chunks WHERE chunk_id = ANY(:chunk_ids::bigint[]) AND status <> 'offered' AND n_jobs = 0
UNION
SELECT c.chunk_id FROM chunks c
 WHERE c.chunk_id = ANY(:chunk_ids::bigint[]) AND c.status = 'used' AND c.ended_at < :made_before
   AND NOT EXISTS (SELECT FROM jobs j WHERE j.task_id = c.task_id AND j.chunk_id = c.chunk_id
                    AND j.status IN ('pending', 'waiting', 'defined', 'assigned', 'activated', 'throttled', 'sent',
                                     'starting'));
