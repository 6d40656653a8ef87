-- name: jobs_of_share
-- Jobs of a share and resource type by state, for its throttle.
SELECT status, greatest(sum(n_jobs), 0)::bigint AS n_jobs FROM queue_statistics
 WHERE gshare = :gshare AND resource_type = :resource_type GROUP BY status
UNION ALL
-- what chunks that are being brokered may become; merging is not throttled
SELECT 'offered', coalesce(sum(least(c.n_files, c.max_jobs)), 0)::bigint
  FROM chunks c JOIN tasks t USING (task_id)
 WHERE c.status = 'offered' AND c.kind <> 'merge' AND t.gshare = :gshare AND t.resource_type = :resource_type;

-- name: resource_queues
-- Work queues that are throttled by themselves.
SELECT queue_id, queue_name, throttled FROM work_queues WHERE queue_function = 'Resource' ORDER BY queue_id;

-- name: jobs_of_resource_queue
-- Live jobs of a work queue by state. Index jobs_work_queue.
SELECT status, count(*) AS n_jobs FROM jobs
 WHERE work_queue_id = :queue_id
   AND :resource_type::text IN (resource_type, '*')
   AND status IN ('defined', 'assigned', 'activated', 'throttled', 'sent', 'starting', 'running', 'waiting')
 GROUP BY status;

-- name: offered_by_resource_queue
-- What chunks of a work queue that are being brokered may become.
SELECT coalesce(sum(least(c.n_files, c.max_jobs)), 0)::bigint AS n_jobs FROM chunks c JOIN tasks t USING (task_id)
 WHERE c.status = 'offered' AND c.kind <> 'merge' AND t.work_queue_id = :queue_id
   AND :resource_type::text IN (t.resource_type, '*');

-- name: walltime_of_queued
-- The walltime of queued jobs of tasks of a share and resource type, of up to so many; NULL where one is not known.
SELECT CASE WHEN bool_and(walltime_s > 0) THEN sum(walltime_s)::float8 END AS walltime_s FROM (
    SELECT s.walltime_s FROM tasks t
      JOIN jobs j ON j.task_id = t.task_id AND j.status IN ('defined', 'assigned', 'activated', 'starting')
      JOIN requirement_shapes s USING (shape_id)
     WHERE t.gshare = :gshare AND t.resource_type = :resource_type AND t.status IN ('ready', 'scouting', 'running')
     LIMIT :at_most) queued;

-- name: highest_priorities
-- Of tasks of a share and resource type: the highest priority of one with open input, and of one with queued jobs.
-- Index tasks_generating.
SELECT (SELECT t.current_priority FROM tasks t
         WHERE t.gshare = :gshare AND t.resource_type = :resource_type AND t.status IN ('ready', 'scouting', 'running')
           AND EXISTS (SELECT FROM task_datasets d WHERE d.task_id = t.task_id AND d.master_id IS NULL
                          AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.status = 'ready'
                          AND least(d.n_files_to_be_used, d.n_files) > d.n_files_used)
         ORDER BY t.current_priority DESC LIMIT 1) AS waiting,
       (SELECT t.current_priority FROM tasks t
         WHERE t.gshare = :gshare AND t.resource_type = :resource_type AND t.status IN ('ready', 'scouting', 'running')
           AND (EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id
                           AND j.status IN ('defined', 'assigned', 'activated', 'starting'))
                OR EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered'))
         ORDER BY t.current_priority DESC LIMIT 1) AS queued;

-- name: share_is_throttled
-- Whether the share may be throttled; no row for a share that is not loaded.
SELECT throttled FROM shares WHERE gshare = :gshare;

-- name: walltime_of_work_queue
-- As walltime_of_queued, of the jobs of a work queue that is throttled by itself. Index jobs_work_queue.
SELECT CASE WHEN bool_and(walltime_s > 0) THEN sum(walltime_s)::float8 END AS walltime_s FROM (
    SELECT s.walltime_s FROM jobs j JOIN requirement_shapes s USING (shape_id)
     WHERE j.work_queue_id = :work_queue_id AND j.resource_type = :resource_type
       AND j.status IN ('defined', 'assigned', 'activated', 'starting')
     LIMIT :at_most) queued;

-- name: priorities_of_work_queue
-- As highest_priorities, of tasks of a work queue that is throttled by itself. Index tasks_of_work_queues.
SELECT (SELECT t.current_priority FROM tasks t
         WHERE t.work_queue_id = :work_queue_id AND :resource_type::text IN (t.resource_type, '*')
           AND t.status IN ('ready', 'scouting', 'running')
           AND EXISTS (SELECT FROM task_datasets d WHERE d.task_id = t.task_id AND d.master_id IS NULL
                          AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.status = 'ready'
                          AND least(d.n_files_to_be_used, d.n_files) > d.n_files_used)
         ORDER BY t.current_priority DESC LIMIT 1) AS waiting,
       (SELECT t.current_priority FROM tasks t
         WHERE t.work_queue_id = :work_queue_id AND :resource_type::text IN (t.resource_type, '*')
           AND t.status IN ('ready', 'scouting', 'running')
           AND (EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id
                           AND j.status IN ('defined', 'assigned', 'activated', 'starting'))
                OR EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered'))
         ORDER BY t.current_priority DESC LIMIT 1) AS queued;
