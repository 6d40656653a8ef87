-- Parts of tasks that wait by themselves: merges with a chunk that came back, job sets by their own time.

-- name: held_merges
-- Queues and memory whose merges no queue took, and whose time has not come. Index chunks_held.
SELECT queue, ram_mb FROM chunks WHERE task_id = :task_id AND kind = 'merge' AND retry_at > orrery_now();

-- name: release_merges
-- Merges that wait are offered again: all of the task, or those of a queue. Index chunks_held.
UPDATE chunks SET retry_at = NULL
 WHERE task_id = :task_id AND kind = 'merge' AND retry_at IS NOT NULL AND (:queue::text IS NULL OR queue = :queue::text);

-- name: release_woken_merges
-- The same of merges that were woken. Several chunks may wait at one queue with one row: it wakes them all, as any one that
-- waits on holds the others. Index chunks_held.
UPDATE chunks c SET retry_at = NULL FROM waits w
 WHERE c.task_id = :task_id AND c.kind = 'merge' AND c.retry_at IS NOT NULL
   AND w.task_id = c.task_id AND w.kind = 'queue' AND w.work = 'merge' AND w.part = concat_ws(' ', c.queue, c.ram_mb)
   AND w.woken_at IS NOT NULL;

-- name: woken_work
-- What was woken of a task and has not been decided about yet. Index waits_pkey.
SELECT DISTINCT work FROM waits
 WHERE task_id = :task_id AND woken_at > orrery_now() - interval '1 minute' AND placed_at IS NULL;

-- name: due_merges
-- Tasks with merges whose time has come. Index chunks_held.
SELECT c.task_id FROM chunks c JOIN tasks t USING (task_id)
 WHERE c.kind = 'merge' AND c.retry_at <= orrery_now() AND t.status = ANY(:statuses::text[])
 GROUP BY c.task_id ORDER BY min(c.retry_at), c.task_id LIMIT :at_most;

-- name: release_due_merges
-- Merges of a task whose time has come. Index chunks_held.
UPDATE chunks SET retry_at = NULL WHERE task_id = :task_id AND kind = 'merge' AND retry_at <= orrery_now();

-- name: leave_gate
-- Input of a task went through its gate: it waits there no more. Index waits_pkey.
DELETE FROM waits WHERE task_id = :task_id AND kind = 'share' AND woken_at IS NULL;

-- name: wait_as_job_sets
-- What held a chunk holds the job sets that its input is in now.
INSERT INTO waits AS w (task_id, kind, work, decision_id, n_jobs, causes, world_version, config_version, retry_at)
SELECT task_id, kind, 'job sets', decision_id, n_jobs, causes, world_version, config_version, retry_at FROM waits
 WHERE task_id = :task_id AND kind = 'queue' AND work = 'input' AND chunk_id = :chunk_id
ON CONFLICT (task_id, kind, work, part) DO UPDATE
   SET decision_id = excluded.decision_id, chunk_id = NULL, n_jobs = excluded.n_jobs, causes = excluded.causes,
       world_version = excluded.world_version, config_version = excluded.config_version, decided_at = orrery_now(),
       retry_at = excluded.retry_at, wake_nr = w.wake_nr + 1, woken_at = NULL, woken_by = NULL, woken_for = NULL,
       room_since = NULL, placed_at = NULL, placed_chunk_id = NULL, changed_by = pg_current_xact_id()::text::bigint;

-- name: more_output_comes
-- Whether input of a task is on its way to jobs: in a chunk; or open in these datasets, and nothing holds it, or its share
-- alone does, or jobs of the task may still change that. Input that no queue takes is on no way. Indexes chunks_task,
-- task_files_state, jobs_task.
SELECT EXISTS (SELECT FROM chunks WHERE task_id = :task_id AND status = 'offered' AND kind <> 'merge')
    OR EXISTS (SELECT FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
                CROSS JOIN LATERAL (SELECT FROM task_files f WHERE f.dataset_id = d.dataset_id
                                       AND f.status IN ('ready', 'pending', 'staging') LIMIT 1) one)
       AND (EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:live::text[]) AND job_type <> 'merge')
            OR EXISTS (SELECT FROM tasks t JOIN waits w USING (task_id)
                        WHERE t.task_id = :task_id AND t.retry_at > orrery_now() AND w.kind = 'share'
                          AND w.placed_at IS NULL)
            OR EXISTS (SELECT FROM tasks t WHERE t.task_id = :task_id AND (t.retry_at IS NULL OR t.retry_at <= orrery_now())
                          AND NOT EXISTS (SELECT FROM chunks h WHERE h.task_id = t.task_id AND h.retry_at > orrery_now()
                                             AND h.kind <> 'merge')));
