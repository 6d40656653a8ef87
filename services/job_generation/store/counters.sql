-- Counters of datasets and tasks. Whoever changes several takes the datasets first, in order of id, and then the tasks.

-- name: add_to_counters
-- The counters of datasets follow what became of their files. All datasets of their tasks are taken, in order of id, like
-- everybody does who takes several: who makes jobs counts outputs first, and picks input of the same task after that.
WITH held AS MATERIALIZED (
    SELECT dataset_id FROM task_datasets
     WHERE task_id IN (SELECT task_id FROM task_datasets WHERE dataset_id = ANY(:ids::bigint[]))
     ORDER BY dataset_id FOR NO KEY UPDATE)
UPDATE task_datasets d
   SET n_files = d.n_files + c.n_files, n_files_used = d.n_files_used + c.used,
       n_files_finished = d.n_files_finished + c.finished, n_files_failed = d.n_files_failed + c.failed,
       n_files_on_hold = d.n_files_on_hold + c.on_hold,
       n_events_used = CASE WHEN c.events = 0 THEN d.n_events_used ELSE coalesce(d.n_events_used, 0) + c.events END,
       modification_time = orrery_now()
  FROM unnest(:ids::bigint[], :n_files::bigint[], :used::bigint[], :finished::bigint[], :failed::bigint[],
              :on_hold::bigint[], :events::bigint[]) AS c (dataset_id, n_files, used, finished, failed, on_hold, events)
 WHERE d.dataset_id = c.dataset_id AND (SELECT count(*) FROM held) > 0;

-- name: count_ended_jobs
-- How many jobs of tasks ended well and how many did not, and the core seconds that they had at each queue: always after
-- the counters of datasets, and tasks in order of id, so that nobody waits in a circle. The time of a try is written once
-- a minute: it is in an index.
WITH counted AS (
    INSERT INTO task_job_counts AS c (task_id, n_finished, n_failed, tried_at)
    SELECT n.task_id, n.n_finished, n.n_failed, CASE WHEN n.is_tried THEN orrery_now() END
      FROM unnest(:task_ids::bigint[], :n_finished::bigint[], :n_failed::bigint[], :are_tried::boolean[])
           AS n (task_id, n_finished, n_failed, is_tried)
    ON CONFLICT (task_id) DO UPDATE SET n_finished = c.n_finished + excluded.n_finished,
           n_failed = c.n_failed + excluded.n_failed,
           tried_at = CASE WHEN c.tried_at > excluded.tried_at - interval '1 minute' THEN c.tried_at
                           ELSE coalesce(excluded.tried_at, c.tried_at) END
    RETURNING task_id
)
INSERT INTO task_usage AS u (task_id, queue, finished_core_s, failed_core_s)
SELECT used.* FROM unnest(:used_task_ids::bigint[], :queues::text[], :finished_core_s::float8[],
                          :failed_core_s::float8[]) AS used
 WHERE (SELECT count(*) FROM counted) > 0
ON CONFLICT (task_id, queue) DO UPDATE SET finished_core_s = u.finished_core_s + excluded.finished_core_s,
       failed_core_s = u.failed_core_s + excluded.failed_core_s;

-- name: lock_datasets
-- Datasets of tasks that are looked at together, before any of their files is picked.
SELECT dataset_id FROM task_datasets WHERE task_id = ANY(:task_ids::bigint[]) ORDER BY dataset_id FOR NO KEY UPDATE;
