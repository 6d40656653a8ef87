-- Notices to owners of tasks.

-- name: note_end
-- A task ended or is exhausted: once for each time that it came into the state, unless it says noEmail. What happened
-- longer ago than letters wait is not told.
INSERT INTO notices (task_id, cause, since)
SELECT t.task_id, t.status, t.state_change_time FROM tasks t LEFT JOIN task_parameters p USING (task_id)
 WHERE t.task_id = :task_id AND t.status = :cause::text
   AND t.state_change_time > orrery_now() - make_interval(secs => :oldest_s::float8)
   AND coalesce(lower(p.task_parameters ->> :no_email::text), 'false') NOT IN ('true', '1')
ON CONFLICT DO NOTHING;

-- name: note_waiting
-- Pending tasks that have waited for so long, of which the last brokerage was left without a place by what stays until
-- somebody changes it, and of which that is not noted. Indexes tasks_pending, brokerage_decisions_task,
-- notices_task_id_cause_since_key.
INSERT INTO notices (task_id, cause, since)
SELECT t.task_id, 'waits', t.frozen_time
  FROM tasks t LEFT JOIN task_parameters p USING (task_id)
 CROSS JOIN LATERAL (SELECT d.outcome, d.summary FROM brokerage_decisions d WHERE d.task_id = t.task_id
                      ORDER BY d.decision_id DESC LIMIT 1) last
 WHERE t.frozen_time <= orrery_now() - make_interval(secs => :waited_s::float8)
   AND t.frozen_time > orrery_now() - make_interval(days => :days::int)
   AND t.status = 'pending' AND last.outcome = 'none' AND (last.summary -> 'nearest_miss' ->> 'temporary') = 'false'
   AND coalesce(lower(p.task_parameters ->> :no_email::text), 'false') NOT IN ('true', '1')
   AND NOT EXISTS (SELECT FROM notices n
                    WHERE n.task_id = t.task_id AND n.cause = 'waits' AND n.since = t.frozen_time)
 ORDER BY t.frozen_time LIMIT :most::int
ON CONFLICT DO NOTHING;

-- name: take_notice
-- The one that has been due for the longest, for one sender, with what is told of the task; whether it waited for too long,
-- and whether its cause is still there. A task that is not there has no name. Index notices_due.
UPDATE notices n SET attempts = n.attempts + 1, next_at = orrery_now() + make_interval(secs => :lease_s::float8)
  FROM (SELECT w.notice_id, w.task_id FROM notices w WHERE w.status = 'waiting' AND w.next_at <= orrery_now()
         ORDER BY w.next_at, w.notice_id LIMIT 1 FOR UPDATE SKIP LOCKED) due
  LEFT JOIN tasks t ON t.task_id = due.task_id
 WHERE n.notice_id = due.notice_id
RETURNING n.notice_id, n.task_id, n.cause, n.since, n.attempts, t.task_name, t.user_name, coalesce(t.vo, '') AS vo,
          t.prod_source_label, t.progress, t.error_dialog,
          n.noted_at < orrery_now() - make_interval(secs => :oldest_s::float8) AS is_too_old,
          coalesce(t.status = CASE n.cause WHEN 'waits' THEN 'pending' ELSE n.cause END, false) AS is_so;

-- name: put_off_notice
-- Not sent, and why; it is tried again after so long, unless another sender has taken it meanwhile.
UPDATE notices SET reason = :reason, next_at = orrery_now() + make_interval(secs => :wait_s::float8)
 WHERE notice_id = :notice_id AND status = 'waiting' AND attempts = :attempts::int;

-- name: end_notice
-- What became of it, unless another sender has taken it meanwhile.
UPDATE notices SET status = :status, reason = :reason, ended_at = orrery_now()
 WHERE notice_id = :notice_id AND status = 'waiting' AND attempts = :attempts::int;

-- name: forget_notices
-- Old ones, also those that wait: no mail server may be set any more. Index notices_noted.
DELETE FROM notices WHERE notice_id IN (
    SELECT notice_id FROM notices WHERE noted_at < orrery_now() - make_interval(days => :days::int)
     ORDER BY noted_at LIMIT :most::int) RETURNING notice_id;
