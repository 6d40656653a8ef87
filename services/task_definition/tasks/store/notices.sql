-- Notices to owners of tasks.

-- name: note_end
-- A task ended or is exhausted: once for each time that it came into the state, unless it says noEmail.
INSERT INTO notices (task_id, cause, since)
SELECT t.task_id, t.status, t.state_change_time FROM tasks t LEFT JOIN task_parameters p USING (task_id)
 WHERE t.task_id = :task_id AND t.status = :cause::text
   AND coalesce(lower(p.task_parameters ->> 'noEmail'), 'false') NOT IN ('true', '1')
ON CONFLICT DO NOTHING;

-- name: note_waiting
-- Pending tasks that have waited for so long, since a look before this one, of which the last brokerage was left without a
-- place by what stays until somebody changes it. Indexes tasks_frozen, brokerage_decisions_task.
INSERT INTO notices (task_id, cause, since)
SELECT t.task_id, 'waits', t.frozen_time
  FROM tasks t LEFT JOIN task_parameters p USING (task_id)
 CROSS JOIN LATERAL (SELECT d.outcome, d.summary FROM brokerage_decisions d WHERE d.task_id = t.task_id
                      ORDER BY d.decision_id DESC LIMIT 1) last
 WHERE t.frozen_time <= orrery_now() - make_interval(secs => :waited_s::float8)
   AND t.frozen_time > coalesce(:since::timestamptz, '-infinity') - make_interval(secs => 2 * :waited_s::float8)
   AND t.status = 'pending' AND last.outcome = 'none' AND (last.summary -> 'nearest_miss' ->> 'temporary') = 'false'
   AND coalesce(lower(p.task_parameters ->> 'noEmail'), 'false') NOT IN ('true', '1')
 ORDER BY t.frozen_time LIMIT :most::int
ON CONFLICT DO NOTHING;

-- name: take_notices
-- Those that are due, for one sender, with what is told of the task. Index notices_due.
UPDATE notices n SET attempts = n.attempts + 1, next_at = orrery_now() + make_interval(secs => :lease_s::float8)
  FROM (SELECT w.notice_id FROM notices w WHERE w.status = 'waiting' AND w.next_at <= orrery_now()
         ORDER BY w.next_at, w.notice_id LIMIT :most::int FOR UPDATE SKIP LOCKED) due, tasks t
 WHERE n.notice_id = due.notice_id AND t.task_id = n.task_id
RETURNING n.notice_id, n.task_id, n.cause, n.since, n.attempts, t.task_name, t.user_name, coalesce(t.vo, '') AS vo,
          t.prod_source_label, t.progress, t.error_dialog;

-- name: put_off_notice
-- Not sent, and why; it is tried again after so long.
UPDATE notices SET reason = :reason, next_at = orrery_now() + make_interval(secs => :wait_s::float8)
 WHERE notice_id = :notice_id AND status = 'waiting';

-- name: end_notice
-- What became of it.
UPDATE notices SET status = :status, reason = :reason, ended_at = orrery_now()
 WHERE notice_id = :notice_id AND status = 'waiting';

-- name: forget_notices
-- Old ones. Index notices_ended.
DELETE FROM notices WHERE notice_id IN (
    SELECT notice_id FROM notices WHERE ended_at < orrery_now() - make_interval(days => :days::int)
     ORDER BY ended_at LIMIT :most::int) RETURNING notice_id;
