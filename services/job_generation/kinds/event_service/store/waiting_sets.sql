-- Job sets that wait for real co-jumbo jobs: their only live job has no queue.

-- name: waiting_sets
-- Open sets of a task that wait, with ranges that a real co-jumbo job could take, in order: those after the last for
-- which it asked in this round. Indexes jobs_without_queue, job_set_jobs_pkey.
SELECT s.job_set_id FROM jobs j JOIN job_set_jobs m USING (job_id) JOIN job_sets s USING (job_set_id)
 WHERE j.task_id = :task_id AND j.queue IS NULL AND j.status = 'waiting' AND s.status = 'open' AND s.wants IS NULL
   AND s.n_ready > 0 AND s.job_set_id > (SELECT co_jumbo_after FROM tasks WHERE task_id = :task_id)
 ORDER BY s.job_set_id LIMIT :at_most;

-- name: offer_for_sets
-- A chunk without files of its own, as large as the input of these sets. Index task_files_set.
WITH input AS MATERIALIZED (
    SELECT f.dataset_id, f.lfn, coalesce(max(f.fsize), 0) AS n_bytes, coalesce(sum(f.n_events), 0) AS n_events,
           bool_or(d.master_id IS NULL) AS is_master
      FROM task_files f JOIN task_datasets d USING (dataset_id)
     WHERE f.jobset_id = ANY(:set_ids::bigint[]) AND f.status = 'running'
     GROUP BY f.dataset_id, f.lfn)
INSERT INTO chunks (chunk_id, task_id, kind, status, dataset_id, n_files, n_events, input_bytes, priority, max_jobs,
                    inputs, is_for_waiting)
SELECT :chunk_id, :task_id, 'normal', 'offered', min(dataset_id) FILTER (WHERE is_master),
       count(*) FILTER (WHERE is_master), coalesce(sum(n_events) FILTER (WHERE is_master), 0),
       coalesce(sum(n_bytes) FILTER (WHERE is_master), 0), :priority, :max_jobs, (
           SELECT coalesce(jsonb_agg(jsonb_build_object('dataset_id', dataset_id, 'n_files', n_files,
                                                        'n_bytes', n_bytes, 'n_events', n_events)
                                     ORDER BY dataset_id), '[]')
             FROM (SELECT dataset_id, count(*) AS n_files, sum(n_bytes) AS n_bytes, sum(n_events) AS n_events
                     FROM input GROUP BY dataset_id) held), true
  FROM input HAVING count(*) FILTER (WHERE is_master) > 0
RETURNING chunk_id;

-- name: place_sets
-- The queues that were ranked for sets that waited.
UPDATE job_sets SET queues = :queues WHERE job_set_id = ANY(:set_ids::bigint[]) AND status = 'open';

-- name: note_waiting
-- Which input of these sets waits for a real co-jumbo job, and how much of each dataset does. Index task_files_set.
WITH judged AS (
    SELECT f.file_id, EXISTS (
           SELECT FROM job_set_jobs m JOIN jobs j USING (job_id)
            WHERE m.job_set_id = f.jobset_id AND j.queue IS NULL AND j.status = 'waiting') AS waits
      FROM task_files f WHERE f.jobset_id = ANY(:set_ids::bigint[])
), changed AS (
    UPDATE task_files f SET is_waiting = j.waits FROM judged j
     WHERE f.file_id = j.file_id AND f.is_waiting <> j.waits
    RETURNING f.dataset_id, f.is_waiting
)
UPDATE task_datasets d SET n_files_waiting = d.n_files_waiting + c.n_more
  FROM (SELECT dataset_id, sum(CASE WHEN is_waiting THEN 1 ELSE -1 END) AS n_more FROM changed
         GROUP BY dataset_id ORDER BY dataset_id) c
 WHERE d.dataset_id = c.dataset_id;

-- name: ask_at
-- When queues are asked for again for the sets of a task that wait, or the first of those that wait for a site may go on;
-- a row that would not change is not written. Index job_sets_open.
UPDATE tasks SET co_jumbo_retry_at = n.next_at
  FROM (SELECT least(:retry_at::timestamptz, min(retry_at)) AS next_at FROM job_sets
         WHERE task_id = :task_id AND status IN ('open', 'merging')) n
 WHERE task_id = :task_id AND co_jumbo_retry_at IS DISTINCT FROM n.next_at;

-- name: forget_due
-- The time has come; another that was set since stays.
UPDATE tasks SET co_jumbo_retry_at = NULL WHERE task_id = :task_id AND co_jumbo_retry_at <= orrery_now();

-- name: ask_by
-- The same where no time was set: more sets that wait do not put it off.
UPDATE tasks SET co_jumbo_retry_at = :retry_at::timestamptz WHERE task_id = :task_id AND co_jumbo_retry_at IS NULL;

-- name: ask_after
-- The last set for which queues were asked in this round; a row that would not change is not written.
UPDATE tasks SET co_jumbo_after = :job_set_id::bigint
 WHERE task_id = :task_id AND co_jumbo_after <> :job_set_id::bigint;

-- name: ask_anew
-- Queues are asked for now: a round over the sets that wait goes on where it is, and begins anew when it is over.
UPDATE tasks SET co_jumbo_retry_at = orrery_now() WHERE task_id = :task_id;

-- name: hold_set
-- A set whose next job no site takes now; a search says only here that it wants one.
UPDATE job_sets SET retry_at = :retry_at, wants = coalesce(wants, 'consumer')
 WHERE job_set_id = :job_set_id AND status IN ('open', 'merging');

-- name: release_sets
-- Sets of a task need not wait longer. Index job_sets_open.
UPDATE job_sets SET retry_at = NULL
 WHERE task_id = :task_id AND status IN ('open', 'merging') AND retry_at IS NOT NULL;

-- name: due_tasks
-- Tasks for whose waiting sets queues are to be asked for again. Index tasks_co_jumbo_retry.
SELECT task_id FROM tasks WHERE co_jumbo_retry_at <= orrery_now() AND status = ANY(:statuses::text[])
 ORDER BY co_jumbo_retry_at, task_id LIMIT :at_most;

-- name: queues_of_live_jumbo
-- Where jumbo jobs of a task are that may still take ranges. Index jumbo_jobs_task.
SELECT DISTINCT ON (j.queue) j.queue, j.resource_type FROM jumbo_jobs u JOIN jobs j USING (job_id)
 WHERE u.task_id = :task_id AND u.ended_at IS NULL
   AND j.status IN ('pending', 'defined', 'assigned', 'activated', 'throttled', 'sent', 'starting', 'running')
 ORDER BY j.queue, j.job_id;
