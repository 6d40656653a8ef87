-- name: renew_task
-- A retried task starts afresh.
UPDATE tasks SET start_time = NULL, end_time = NULL, frozen_time = NULL, current_priority = coalesce(task_priority, 0)
 WHERE task_id = :task_id;

-- name: change_task
-- Parameters that a retry or a reassignment may change.
UPDATE tasks SET split_rule = :split_rule::jsonb, site = :site, cloud = :cloud, nucleus = :nucleus
 WHERE task_id = :task_id;

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
RETURNING dataset_name, type;

-- name: files_to_do
-- Units that are not processed yet.
SELECT count(*) FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
   AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing');
