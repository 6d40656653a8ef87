-- name: insert_periodic
-- A new series of tasks.
INSERT INTO periodic_tasks (task_name, user_name, vo, task_parameters, caller, period_s, next_at, ends_at)
VALUES (:task_name, :user_name, :vo, :parameters::jsonb, :caller::jsonb, :period_s, :next_at, :ends_at)
RETURNING periodic_id;

-- name: lock_periodic
-- One series, held until the commit.
SELECT periodic_id, task_name, user_name, vo, status, task_parameters, caller, period_s, next_at, ends_at, n_submitted
  FROM periodic_tasks WHERE periodic_id = :periodic_id FOR NO KEY UPDATE;

-- name: due_periodic
-- Series whose next task is due, or that are to end. Index periodic_tasks_due.
SELECT periodic_id, task_name, user_name, vo, status, task_parameters, caller, period_s, next_at, ends_at, n_submitted
  FROM periodic_tasks WHERE status = 'active' AND next_at <= orrery_now()
 ORDER BY next_at, periodic_id LIMIT :count::int FOR NO KEY UPDATE SKIP LOCKED;

-- name: move_periodic
-- Compare-and-set of the state of a series; one that is resumed goes on at once if its time has passed.
UPDATE periodic_tasks SET status = :status, state_change_time = orrery_now()
 WHERE periodic_id = :periodic_id AND status = ANY(:allowed::text[]) RETURNING periodic_id;

-- name: note_submitted
-- What became of the task that was due, and when the next one is.
UPDATE periodic_tasks
   SET n_submitted = n_submitted + (:task_id::bigint IS NOT NULL)::int,
       n_refused = CASE WHEN :task_id::bigint IS NULL THEN n_refused + 1 ELSE 0 END,
       last_task_id = coalesce(:task_id, last_task_id), last_error = :error, next_at = :next_at
 WHERE periodic_id = :periodic_id;

-- name: list_periodic
-- Series of tasks, the newest first.
SELECT periodic_id, task_name, user_name, vo, status, period_s, next_at, ends_at, n_submitted, n_refused, last_task_id,
       last_error, creation_time
  FROM periodic_tasks
 WHERE (:user_name::text IS NULL OR user_name = :user_name) AND (:status::text IS NULL OR status = :status)
 ORDER BY periodic_id DESC LIMIT :count::int;
