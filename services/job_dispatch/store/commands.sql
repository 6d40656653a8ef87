-- name: command_under_way
-- Held until the commit: one slice of a task's command at a time.
SELECT task_id, command, soft, step, n_jobs FROM command_progress WHERE task_id = :task_id FOR UPDATE;

-- name: begin_command
-- A command for all jobs of a task begins; a later one takes the place of the one before.
INSERT INTO command_progress (task_id, command, soft) VALUES (:task_id, :command, :soft)
ON CONFLICT (task_id) DO UPDATE
SET command = excluded.command, soft = excluded.soft, step = 0, n_jobs = 0, started_at = orrery_now(),
    moved_at = orrery_now()
RETURNING task_id, command, soft, step, n_jobs;

-- name: next_command
-- The one that has waited longest; those that another replica works on are left to it.
SELECT task_id, command, soft, step, n_jobs FROM command_progress
 ORDER BY moved_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: note_progress
-- A slice was done; the other commands have their turn first. Index command_progress_turn.
UPDATE command_progress SET step = :step, n_jobs = n_jobs + :n_jobs, moved_at = orrery_now() WHERE task_id = :task_id;

-- name: end_command
-- The command was carried out for every job.
DELETE FROM command_progress WHERE task_id = :task_id;

-- name: plan_by_status
-- Most rows of the table may belong to this task, and most of those may have been taken already: only the index by
-- task and status leads straight to those that are left.
SELECT set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true);

-- name: take_jobs_of_task
-- Nobody is waited for: a job that a report holds is taken by a later slice.
SELECT job_id FROM jobs
 WHERE task_id = :task_id AND status = ANY(:statuses::text[]) AND job_type <> ALL(:spared_types::text[])
 LIMIT :size::int FOR NO KEY UPDATE SKIP LOCKED;

-- name: has_jobs_left
-- Whether a later slice finds jobs. Index jobs_task.
SELECT EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:statuses::text[])
                                  AND job_type <> ALL(:spared_types::text[]));
