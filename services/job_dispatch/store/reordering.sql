-- name: begin_change
-- What the task has now is what its waiting jobs shall have; a later change adds to one that is under way.
-- done for: COMMANDS
INSERT INTO job_order_changes AS known (task_id, priority, gshare)
SELECT task_id, CASE WHEN :of_priority::boolean THEN current_priority END, CASE WHEN :of_share::boolean THEN gshare END
  FROM tasks WHERE task_id = :task_id
ON CONFLICT (task_id) DO UPDATE
SET priority = coalesce(excluded.priority, known.priority), gshare = coalesce(excluded.gshare, known.gshare),
    moved_at = orrery_now()
RETURNING task_id, priority, gshare;

-- name: next_change
-- The one that has waited longest; those that another replica works on are left to it. Index job_order_changes_turn.
SELECT task_id, priority, gshare FROM job_order_changes ORDER BY moved_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: note_change
-- A slice was done; the others have their turn first.
-- done for: COMMANDS
UPDATE job_order_changes SET n_jobs = n_jobs + :n_jobs, moved_at = orrery_now() WHERE task_id = :task_id;

-- name: end_change
-- All waiting jobs of the task have what they shall have.
-- done for: COMMANDS
DELETE FROM job_order_changes WHERE task_id = :task_id;

-- name: plan_by_index
-- Most rows of the table may belong to one task: only the index by task and status leads straight to those that wait.
SELECT set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true);

-- name: take_jobs_to_reorder
-- Nobody is waited for: a job that a claim or a report holds is taken by a later slice. Index jobs_task.
SELECT job_id, task_id, status, job_type, queue, resource_type, user_name, shape_id, core_count, gshare,
       current_priority AS priority, order_key_id
  FROM jobs
 WHERE task_id = :task_id AND status = ANY(:statuses::text[])
   AND (gshare <> coalesce(:gshare, gshare)
        OR current_priority <> coalesce((SELECT wanted.priority
             FROM unnest(:job_types::text[], :priorities::int[]) AS wanted (job_type, priority)
            WHERE wanted.job_type = jobs.job_type), current_priority))
 LIMIT :size::int FOR NO KEY UPDATE SKIP LOCKED;

-- name: has_jobs_to_reorder
-- Whether a later slice finds jobs. Index jobs_task.
SELECT EXISTS (SELECT FROM jobs
 WHERE task_id = :task_id AND status = ANY(:statuses::text[])
   AND (gshare <> coalesce(:gshare, gshare)
        OR current_priority <> coalesce((SELECT wanted.priority
             FROM unnest(:job_types::text[], :priorities::int[]) AS wanted (job_type, priority)
            WHERE wanted.job_type = jobs.job_type), current_priority)));

-- name: lock_waiting_jobs
-- Waiting jobs by their ids, in order, like everybody who locks several jobs.
SELECT job_id, task_id, status, job_type, queue, resource_type, user_name, shape_id, core_count, gshare,
       current_priority AS priority, order_key_id
  FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND status = ANY(:statuses::text[])
 ORDER BY job_id FOR NO KEY UPDATE;

-- name: reorder_jobs
-- By compare-and-set: a job that a pilot has taken meanwhile stays as it is. Time-out rules are asked at once where others
-- may be about it now: from one of the limits on.
-- done for: COMMANDS
UPDATE jobs SET current_priority = wanted.priority, gshare = wanted.gshare,
       deadline_at = CASE WHEN EXISTS (SELECT FROM unnest(:limits::int[]) AS of_rules (least)
                                       WHERE (jobs.current_priority >= of_rules.least) <> (wanted.priority >= of_rules.least))
                          THEN least(jobs.deadline_at, orrery_now()) ELSE jobs.deadline_at END
  FROM unnest(:job_ids::bigint[], :priorities::int[], :gshares::text[]) AS wanted (job_id, priority, gshare)
 WHERE jobs.job_id = wanted.job_id AND jobs.status = ANY(:statuses::text[])
RETURNING jobs.job_id;

-- name: owner_of_job
-- Whose a live job is, and what the owner may do beside others.
SELECT j.user_name, j.current_priority, coalesce(u.grid_pref, '') AS grid_pref,
       coalesce(t.working_group, '') AS working_group, t.vo
  FROM jobs j JOIN tasks t ON t.task_id = j.task_id LEFT JOIN LATERAL orrery_account(j.user_name, t.vo) u ON true
 WHERE j.job_id = :job_id AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled');
