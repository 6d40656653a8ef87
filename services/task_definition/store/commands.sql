-- name: renew_task
-- A retried task starts afresh; its retries are counted.
UPDATE tasks SET start_time = NULL, end_time = NULL, frozen_time = NULL, attempt_nr = attempt_nr + 1,
       current_priority = CASE WHEN :keep_priority THEN current_priority ELSE coalesce(task_priority, 0) END,
       gshare = coalesce(:gshare, gshare)
 WHERE task_id = :task_id;

-- name: reset_memory
-- Memory as the parameters say it: what scouts measured counts no more.
UPDATE tasks SET ram_count = :ram_count, ram_unit = :ram_unit, measured_units = array_remove(measured_units, 'ram_count')
 WHERE task_id = :task_id;

-- name: retry_facts
-- What the limits of retries are compared with.
SELECT t.attempt_nr AS n_retries, coalesce(j.n_finished, 0) AS n_jobs_finished, coalesce(j.n_failed, 0) AS n_jobs_failed,
       coalesce((SELECT max(f.attempt_nr) FROM task_datasets d JOIN task_files f USING (dataset_id)
                  WHERE d.task_id = t.task_id AND d.master_id IS NULL
                    AND d.type IN ('input', 'pseudo_input', 'pp_input')), 0) AS most_attempts
  FROM tasks t LEFT JOIN task_job_counts j USING (task_id) WHERE t.task_id = :task_id;

-- name: usage_of_jobs
-- HEP score hours of the jobs of a task that finished and failed, by the benchmark of a core at each queue, and how much
-- of the time that they had the newest 1000 that finished used. Indexes jobs_task, jobs_archive_task.
WITH ended AS MATERIALIZED (
        SELECT job_id, status, queue, core_count * extract(epoch FROM end_time - start_time)::float8 AS core_s
          FROM jobs WHERE task_id = :task_id AND status IN ('finished', 'failed')
        UNION ALL
        SELECT job_id, status, queue, core_count * extract(epoch FROM end_time - start_time)::float8
          FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], ARRAY['finished', 'failed'])),
     told AS (
        SELECT sum((r.report ->> 'cpu_consumption_time')::float8) AS cpu_s, sum(e.core_s) AS core_s
          FROM (SELECT job_id, core_s FROM ended WHERE status = 'finished' AND core_s > 0
                 ORDER BY job_id DESC LIMIT 1000) e
          JOIN job_reports r USING (job_id) WHERE jsonb_typeof(r.report -> 'cpu_consumption_time') = 'number')
SELECT coalesce(sum(h.hours) FILTER (WHERE e.status = 'finished'), 0)::float8 AS finished_hours,
       coalesce(sum(h.hours) FILTER (WHERE e.status = 'failed'), 0)::float8 AS failed_hours,
       (SELECT 100 * cpu_s / nullif(core_s, 0) FROM told) AS cpu_efficiency_percent
  FROM ended e LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06)
    ON q.queue = e.queue
 CROSS JOIN LATERAL (
       SELECT greatest(e.core_s, 0) * coalesce(q.core_power_hs06, :usual_hs06::float8) / 3600 AS hours) h;

-- name: change_task
-- Parameters that a retry or a reassignment may change. What is stated now counts as measured no more.
UPDATE tasks
   SET split_rule = :split_rule::jsonb, site = :site, cloud = :cloud, nucleus = :nucleus,
       measured_rules = ARRAY(SELECT unnest(measured_rules) EXCEPT SELECT unnest(:stated::text[]) ORDER BY 1)
 WHERE task_id = :task_id;

-- name: take_unstaged
-- Input on tape counts as if it were on disk, from now on.
UPDATE tasks SET takes_unstaged = true WHERE task_id = :task_id;

-- name: permissions_of_owner
-- What the owner of a task may do beside others.
SELECT coalesce(u.grid_pref, '') AS grid_pref, coalesce(t.working_group, '') AS working_group
  FROM tasks t LEFT JOIN users u ON u.user_name = t.user_name WHERE t.task_id = :task_id;

-- name: change_priority
-- Set by hand: a retry keeps it.
UPDATE tasks SET task_priority = :priority, current_priority = :priority, modification_time = orrery_now()
 WHERE task_id = :task_id;

-- name: change_share
-- Set by hand.
UPDATE tasks SET gshare = :gshare, modification_time = orrery_now() WHERE task_id = :task_id;

-- name: change_parameters
-- The submitted parameters as a retry or a reassignment left them.
UPDATE task_parameters SET task_parameters = :parameters::jsonb WHERE task_id = :task_id;

-- name: inputs_of_task
-- Input datasets of a task, in the order in which they are reopened.
SELECT dataset_id FROM task_datasets
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input') ORDER BY dataset_id;

-- name: reopen_files
-- The next units of an input that were given up (or lost) become ready again with more attempts.
WITH chosen AS MATERIALIZED (
        SELECT f.file_id FROM task_files f
         WHERE f.dataset_id = :dataset_id AND f.status = :status AND f.file_id > :after_id
         ORDER BY f.file_id LIMIT :size::int FOR UPDATE)
UPDATE task_files f
   SET status = 'ready', max_attempt = greatest(f.max_attempt, f.attempt_nr) + :more::int,
       max_failure = CASE WHEN f.max_failure IS NOT NULL
                          THEN greatest(f.max_failure, f.failed_attempt) + :more::int END
  FROM chosen c WHERE f.file_id = c.file_id
RETURNING f.file_id, coalesce(f.n_events, 0) AS n_events;

-- name: count_reopened
-- The counters of datasets follow the units that are ready again.
UPDATE task_datasets d
   SET n_files_used = d.n_files_used - r.n_failed, n_files_failed = d.n_files_failed - r.n_failed,
       n_events_used = d.n_events_used - r.n_events, modification_time = orrery_now()
  FROM unnest(:dataset_ids::bigint[], :failed::bigint[], :events::bigint[]) AS r (dataset_id, n_failed, n_events)
 WHERE d.dataset_id = r.dataset_id;

-- name: raise_attempts
-- More attempts for units that may still be tried.
UPDATE task_files f SET max_attempt = f.max_attempt + :more::int
  FROM task_datasets d
 WHERE d.dataset_id = f.dataset_id AND d.task_id = :task_id AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing') AND f.max_attempt IS NOT NULL;

-- name: raise_task_attempts
-- Units that are added later may be tried as often as those of now.
UPDATE tasks SET max_attempt = max_attempt + :more::int WHERE task_id = :task_id;

-- name: reopen_datasets
-- Datasets of a task that goes on take files again.
UPDATE task_datasets SET status = 'ready', frozen_time = NULL, modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING dataset_name, type, scope, container_name, coalesce(attributes ->> 'transient' = 'true', false) AS is_transient;

-- name: files_to_do
-- Units that are not processed yet.
SELECT count(*) FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
   AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing');
