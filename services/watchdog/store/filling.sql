-- Empty queues, and the tasks that were sent to them.

-- name: use_of_production
-- Waiting and running jobs of each queue by the statistics, its slots, and when a job last began there.
SELECT coalesce(a.queue, s.queue) AS queue, coalesce(s.n_waiting, 0)::bigint AS n_waiting,
       coalesce(s.n_running, 0)::bigint AS n_running, coalesce(v.n_slots_in_all, 0) AS n_slots, a.last_job_start_at
  FROM queue_activity a
  FULL JOIN (SELECT queue, sum(n_jobs) FILTER (WHERE status IN ('activated', 'starting')) AS n_waiting,
                    sum(n_jobs) FILTER (WHERE status = 'running') AS n_running
               FROM queue_statistics GROUP BY queue) s USING (queue)
  LEFT JOIN valid_queue_slots v ON v.queue = coalesce(a.queue, s.queue);

-- name: note_empty
-- The queues that are empty now, each with since when, and when all tasks were last looked at for it; others are forgotten.
WITH gone AS (DELETE FROM empty_queues WHERE queue <> ALL(:queues::text[])),
     new AS (INSERT INTO empty_queues (queue) SELECT unnest(:queues::text[]) ON CONFLICT DO NOTHING
             RETURNING queue, empty_since, tried_at)
SELECT queue, empty_since, tried_at FROM empty_queues WHERE queue = ANY(:queues::text[])
UNION ALL SELECT queue, empty_since, tried_at FROM new;

-- name: note_tried
-- All tasks were looked at for these queues: others have their turn next.
UPDATE empty_queues SET tried_at = orrery_now() WHERE queue = ANY(:queues::text[]);

-- name: sent_tasks
-- Tasks that were sent to queues, and whether they still make jobs. Indexes preassigned_tasks_of_queue, tasks_pkey.
SELECT p.task_id, p.queue, p.resource_type,
       t.status IN ('ready', 'running') AND t.site = p.queue AND EXISTS (
           SELECT FROM task_datasets d
            WHERE d.task_id = p.task_id AND d.type = 'input'
              AND d.n_files_to_be_used - d.n_files_used >= :files_ready::int
              AND d.n_files - d.n_files_used >= :files_remaining::int) AS has_work
  FROM preassigned_tasks p JOIN tasks t USING (task_id)
 WHERE p.released_at IS NULL AND (t.site IS NOT NULL OR p.sent_at < orrery_now() - interval '1 minute')
 ORDER BY p.task_id;

-- name: note_released
-- They are left alone for a while.
UPDATE preassigned_tasks SET released_at = orrery_now() WHERE task_id = ANY(:task_ids::bigint[]) AND released_at IS NULL;

-- name: forget_released
-- Tasks that may be sent to a queue again. Index preassigned_tasks_released.
DELETE FROM preassigned_tasks WHERE released_at < orrery_now() - make_interval(hours => :hours::int);

-- name: fillable_tasks
-- The next production that may go anywhere, the most urgent first, after a priority and task: where its input has copies,
-- and how many files may be used now of a dataset that has enough left. Index tasks_fillable.
WITH next AS MATERIALIZED (
    SELECT * FROM tasks
     WHERE prod_source_label = :label AND event_service = 0 AND coalesce(site, '') = '' AND status IN ('ready', 'running')
       AND ((-current_priority), task_id) > (-(:priority::int), :after_id::bigint)
     ORDER BY (-current_priority), task_id LIMIT :most::int)
SELECT t.task_id, t.resource_type, t.core_count, t.ram_count, t.ram_unit, t.base_ram_count, t.architecture,
       t.trans_uses, t.trans_home, t.container_name, t.split_rule, t.processing_type, t.working_group, t.gshare,
       t.current_priority, p.task_id IS NOT NULL AS was_sent,
       coalesce(d.files_ready, 0) AS files_ready, c.storages
  FROM next t
  LEFT JOIN preassigned_tasks p ON p.task_id = t.task_id
 CROSS JOIN LATERAL (
       SELECT max(n_files_to_be_used - n_files_used) FILTER (WHERE n_files - n_files_used >= :files_remaining::int)
                  AS files_ready
         FROM task_datasets WHERE task_id = t.task_id AND type = 'input') d
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(DISTINCT r.storage), '{}') AS storages
         FROM task_datasets i JOIN catalogue.datasets c ON c.name = i.dataset_name
         JOIN catalogue.dataset_replicas r ON r.dataset_id = c.dataset_id
        WHERE i.task_id = t.task_id AND i.type = 'input' AND d.files_ready > 0) c
 ORDER BY t.current_priority DESC, t.task_id;

-- name: sent_to_queues
-- How many tasks were sent to each of these queues, by resource type. Index preassigned_tasks_of_queue.
SELECT queue, resource_type, count(*) AS n_tasks FROM preassigned_tasks
 WHERE queue = ANY(:queues::text[]) AND released_at IS NULL GROUP BY queue, resource_type;

-- name: note_sent
-- Tasks that are sent to a queue.
INSERT INTO preassigned_tasks (task_id, queue, resource_type)
SELECT n.task_id, :queue, n.resource_type FROM unnest(:task_ids::bigint[], :resource_types::text[]) AS n (task_id, resource_type)
ON CONFLICT DO NOTHING;
