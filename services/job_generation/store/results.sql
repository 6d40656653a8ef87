-- name: tasks_of_jobs
-- Tasks of jobs whose results were not applied.
SELECT DISTINCT task_id FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL ORDER BY task_id;

-- name: lock_jobs
-- Jobs whose results were not applied, held until the commit in the order of their ids.
SELECT job_id, task_id, chunk_id, status, job_type, queue, resource_type, gshare, user_name, core_count, error_source,
       error_code, attempt_number, error_dialog
  FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL ORDER BY job_id FOR NO KEY UPDATE;

-- name: producers_of_merges
-- Jobs whose unmerged outputs are the input of these merge jobs, all jobs of the job sets of these jobs, and of those
-- open sets of which a jumbo job has ranges or some failed with it.
SELECT o.job_id FROM job_set_jobs m JOIN job_set_jobs o USING (job_set_id) WHERE m.job_id = ANY(:job_ids::bigint[])
UNION SELECT o.job_id FROM jumbo_jobs u JOIN event_ranges r ON r.job_id = u.job_id AND r.status IN (1, 2, 3, 7, 8)
  JOIN job_sets s ON s.job_set_id = r.job_set_id AND s.status = 'open'
  JOIN job_set_jobs o ON o.job_set_id = r.job_set_id WHERE u.job_id = ANY(:job_ids::bigint[])
UNION SELECT f.out_job_id
  FROM jobs j JOIN job_files jf ON jf.job_id = j.job_id AND jf.is_master JOIN task_files f ON f.file_id = jf.file_id
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND j.job_type = 'merge' AND j.results_applied_at IS NULL
   AND f.out_job_id IS NOT NULL;

-- name: mark_applied
-- The results of these jobs are applied: nobody does it again.
UPDATE jobs SET results_applied_at = orrery_now() WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL;

-- name: count_ended_jobs
-- How many jobs of a task ended well and how many did not.
INSERT INTO task_job_counts AS c (task_id, n_finished, n_failed) VALUES (:task_id, :n_finished, :n_failed)
ON CONFLICT (task_id) DO UPDATE SET n_finished = c.n_finished + excluded.n_finished,
       n_failed = c.n_failed + excluded.n_failed;

-- name: end_merging_jobs
-- Jobs whose outputs were merged, or will not be, reach their end.
UPDATE jobs SET status = :to_status::text, state_change_time = orrery_now(), end_time = orrery_now(),
       error_source = :error_source, error_dialog = :error_dialog
 WHERE job_id = ANY(:job_ids::bigint[]) AND status = 'merging'
RETURNING job_id, task_id, queue, resource_type, gshare, user_name, core_count;

-- name: files_of_jobs
-- Files of jobs with what decides what becomes of them.
SELECT jf.job_id, jf.is_master, jf.type AS dataset_type, f.file_id, f.dataset_id, f.type, f.status, f.lfn, f.attempt_nr,
       f.max_attempt, f.failed_attempt, f.max_failure, f.job_id AS owner_id, f.out_job_id, f.ram_count,
       coalesce(f.n_events, 0) AS events,
       -- an output has no size before it is registered
       f.fsize IS NOT NULL AS is_registered
  FROM job_files jf JOIN task_files f USING (file_id)
 WHERE jf.job_id = ANY(:job_ids::bigint[]) ORDER BY f.file_id, jf.job_id;

-- name: end_inputs
-- Inputs that the jobs still own end, or become ready again.
UPDATE task_files f SET status = n.status, attempt_nr = n.attempt_nr, max_attempt = n.max_attempt,
       failed_attempt = n.failed_attempt, ram_count = n.ram_count
  FROM unnest(:ids::bigint[], :job_ids::bigint[], :statuses::text[], :attempts::int[], :max_attempts::int[],
              :failed::int[], :rams::bigint[])
       AS n (file_id, job_id, status, attempt_nr, max_attempt, failed_attempt, ram_count)
 WHERE f.file_id = n.file_id AND f.status = 'running' AND f.job_id = n.job_id
RETURNING f.file_id, f.dataset_id, f.type, 'running' AS from_status, f.status,
          coalesce(f.n_events, 0) AS events;

-- name: end_outputs
-- Outputs change their state, with what the pilots reported of them.
UPDATE task_files f SET status = n.status, fsize = coalesce(n.fsize, f.fsize), guid = coalesce(n.guid, f.guid),
       checksum = coalesce(n.checksum, f.checksum), boundary_id = coalesce(n.boundary_id, f.boundary_id),
       max_attempt = coalesce(n.max_attempt, f.max_attempt)
  FROM unnest(:ids::bigint[], :from_statuses::text[], :statuses::text[], :sizes::bigint[], :guids::text[],
              :checksums::text[], :boundaries::bigint[], :max_attempts::int[])
       AS n (file_id, from_status, status, fsize, guid, checksum, boundary_id, max_attempt)
 WHERE f.file_id = n.file_id AND f.status = n.from_status
RETURNING f.file_id, f.dataset_id, f.type, n.from_status, f.status,
          coalesce(f.n_events, 0) AS events;

-- name: reports_of_jobs
-- Final reports of pilots.
SELECT job_id, report FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]);

-- name: on_hold_files
-- Unmerged outputs of jobs that still wait in state merging, by queue.
SELECT j.queue, f.file_id, f.dataset_id, f.type, f.lfn, coalesce(f.fsize, 0) AS fsize, f.n_events, f.start_event,
       f.end_event, f.first_event, f.boundary_id, f.lumi_block_nr, f.scope, f.guid, f.checksum, f.attempt_nr,
       f.ram_count, f.job_id, f.out_job_id
  FROM task_files f JOIN jobs j ON j.job_id = f.boundary_id
 WHERE f.task_id = :task_id AND f.status = 'ready' AND f.boundary_id IS NOT NULL
   AND f.type IN ('trn_output', 'trn_log') AND j.status = 'merging'
 ORDER BY j.queue, j.job_id, f.file_id;

-- name: queues_with_unmerged_work
-- Queues of the list where jobs of the task may still end in state merging.
SELECT q.queue FROM unnest(:queues::text[]) AS q (queue)
 WHERE EXISTS (SELECT FROM jobs j WHERE j.task_id = :task_id AND j.status = ANY(:live::text[]) AND j.queue = q.queue
                  AND j.job_type <> 'merge');

-- name: unmerged_outputs_of
-- Outputs of these jobs that are to be merged. Index task_files_producer.
SELECT file_id, dataset_id, type, status, boundary_id, out_job_id FROM task_files
 WHERE task_id = :task_id AND out_job_id = ANY(:job_ids::bigint[])
   AND type IN ('trn_output', 'trn_log')
 ORDER BY file_id;

-- name: orphaned_outputs
-- Of these outputs, those whose jobs no longer wait for a merge.
SELECT f.file_id FROM task_files f
 WHERE f.file_id = ANY(:ids::bigint[]) AND f.status = 'ready'
   AND NOT EXISTS (SELECT FROM jobs j WHERE j.job_id = f.boundary_id AND j.status = 'merging')
 ORDER BY f.file_id;
