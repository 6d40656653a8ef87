-- name: insert_periodic
-- A new series of tasks.
-- done for: SUBMITTING
INSERT INTO periodic_tasks (task_name, user_name, vo, task_parameters, caller, source, period_s, next_at, ends_at)
VALUES (:task_name, :user_name, :vo, :parameters::jsonb, :caller::jsonb, :source, :period_s, :next_at, :ends_at)
RETURNING periodic_id;

-- name: lock_periodic
-- One series, held until the commit.
SELECT periodic_id, task_name, user_name, vo, status, task_parameters, caller, seen, source, period_s, next_at, ends_at,
       n_submitted
  FROM periodic_tasks WHERE periodic_id = :periodic_id FOR NO KEY UPDATE;

-- name: due_periodic
-- Series whose next task is due, or that are to end. Index periodic_tasks_due.
SELECT periodic_id, task_name, user_name, vo, status, task_parameters, caller, seen, source, period_s, next_at, ends_at,
       n_submitted
  FROM periodic_tasks WHERE status = 'active' AND next_at <= orrery_now()
 ORDER BY next_at, periodic_id LIMIT :count::int FOR NO KEY UPDATE SKIP LOCKED;

-- name: move_periodic
-- Compare-and-set of the state of a series; one that is resumed goes on at once if its time has passed.
-- done for: COMMANDS
UPDATE periodic_tasks SET status = :status, state_change_time = orrery_now(), last_error = :reason
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
-- told by: DETAILS
SELECT periodic_id, task_name, user_name, vo, status, period_s, next_at, ends_at, n_submitted, n_refused, last_task_id,
       last_error, creation_time
  FROM periodic_tasks
 WHERE (:user_name::text IS NULL OR user_name = :user_name) AND (:status::text IS NULL OR status = :status)
 ORDER BY periodic_id DESC LIMIT :count::int;

-- name: note_seen
-- The newest token of whoever submitted a series, and when it was shown; one that claims a VO tells of that VO. What was
-- shown before a revocation is in force everywhere counts for nothing. Index periodic_tasks_submitter.
-- done for: COMMANDS, SUBMITTING
UPDATE periodic_tasks SET seen = :caller::jsonb, seen_at = orrery_now(), source = :source
 WHERE periodic_id IN (
       SELECT p.periodic_id FROM periodic_tasks p
        WHERE p.submitter = :name AND p.status <> 'ended' AND coalesce(p.source, :source::text) = :source
          AND (:vo::text IS NULL OR p.vo = :vo)
          AND (p.seen IS DISTINCT FROM :caller::jsonb OR p.seen_at < orrery_now() - interval '10 minutes'
               OR p.status = 'paused')
          AND NOT EXISTS (SELECT FROM revocations r WHERE r.kind = 'subject' AND r.name = p.submitter
                             AND r.revoked_at > orrery_now() - make_interval(secs => :in_force_after_s::float8))
          FOR NO KEY UPDATE SKIP LOCKED);

-- name: lapsed_periodic
-- Series whose submitter or owner was revoked since they were heard of, or whose submitter was not heard of for long.
-- Indexes periodic_tasks_seen, revocations_pkey.
SELECT p.periodic_id, p.submitter, p.user_name, r.name AS revoked,
       p.seen_at < orrery_now() - make_interval(secs => :seen_within_s::float8) AS is_unseen
  FROM periodic_tasks p
  LEFT JOIN LATERAL (
       SELECT r.name FROM revocations r
        WHERE r.kind = 'subject'
          AND (r.name = p.submitter AND r.revoked_at >= p.seen_at
               OR r.name = p.user_name AND r.name <> p.submitter AND r.revoked_at >= p.state_change_time)
        ORDER BY r.name = p.submitter DESC LIMIT 1) r ON true
 WHERE p.status = :status AND (:periodic_id::bigint IS NULL OR p.periodic_id = :periodic_id)
   AND (r.name IS NOT NULL OR p.seen_at < orrery_now() - make_interval(secs => :seen_within_s::float8))
 ORDER BY p.periodic_id LIMIT :count::int FOR NO KEY UPDATE OF p SKIP LOCKED;
