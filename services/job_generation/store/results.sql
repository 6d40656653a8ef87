-- name: uncounted_jobs
-- Of these jobs, those whose results were not applied, by task; whether each of them finished and is one of those that
-- have no other purpose than their input; and the rules of the task.
SELECT j.task_id, array_agg(j.job_id ORDER BY j.job_id) AS job_ids,
       bool_and(j.status = 'finished' AND j.job_type IN ('normal', 'scout')) AS is_plain, t.split_rule, t.event_service
  FROM jobs j JOIN tasks t USING (task_id)
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND j.results_applied_at IS NULL
 GROUP BY j.task_id, t.split_rule, t.event_service ORDER BY j.task_id;

-- name: lock_jobs
-- Jobs whose results were not applied, held until the commit in the order of their ids.
SELECT job_id, task_id, chunk_id, status, job_type, queue, resource_type, gshare, user_name, core_count, error_source,
       error_code, attempt_number, error_dialog, worker IS NOT NULL AS had_pilot
  FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL ORDER BY job_id FOR NO KEY UPDATE;

-- name: producers_of_merges
-- Jobs whose unmerged outputs are the input of these merge jobs, all jobs of the job sets of these jobs, and of those
-- open sets of which a jumbo job has ranges or some failed with it.
SELECT o.job_id FROM job_set_jobs m JOIN job_set_jobs o USING (job_set_id) WHERE m.job_id = ANY(:job_ids::bigint[])
UNION SELECT o.job_id FROM jumbo_jobs u JOIN event_ranges r ON r.task_id = u.task_id AND r.job_id = u.job_id AND r.status IN (1, 2, 3, 7, 8)
  JOIN job_sets s ON s.job_set_id = r.job_set_id AND s.status = 'open'
  JOIN job_set_jobs o ON o.job_set_id = r.job_set_id WHERE u.job_id = ANY(:job_ids::bigint[])
UNION SELECT f.out_job_id
  FROM jobs j JOIN job_files jf ON jf.job_id = j.job_id AND jf.is_master JOIN task_files f ON f.file_id = jf.file_id
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND j.job_type = 'merge' AND j.results_applied_at IS NULL
   AND f.out_job_id IS NOT NULL;

-- name: mark_applied
-- The results of these jobs are applied: nobody does it again. They are held in order of id, like everybody does who holds
-- several. What they count as: their core seconds at their queue.
WITH ended AS MATERIALIZED (
    SELECT job_id FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL
       AND (:status::text IS NULL OR status = :status)
     ORDER BY job_id FOR NO KEY UPDATE)
UPDATE jobs SET results_applied_at = orrery_now() FROM ended WHERE jobs.job_id = ended.job_id
RETURNING jobs.job_id, jobs.task_id, jobs.queue, jobs.status,
          jobs.core_count * extract(epoch FROM jobs.end_time - jobs.start_time)::float8 AS core_s;

-- name: end_merging_jobs
-- Jobs whose outputs were merged, or will not be, reach their end. Their end time stays that of the pilot's report: the
-- wait for the merge used no core. One without a report does not end before its last change.
UPDATE jobs SET status = :to_status::text, state_change_time = orrery_now(),
       end_time = coalesce(end_time, greatest(orrery_now(), state_change_time)),
       error_source = :error_source, error_dialog = :error_dialog, deadline_at = NULL
 WHERE job_id = ANY(:job_ids::bigint[]) AND status = 'merging'
RETURNING job_id, task_id, queue, resource_type, gshare, user_name, core_count;

-- name: memory_of_jobs
-- What these jobs asked their slots for.
SELECT job_id, ram_mb, j.core_count FROM jobs j JOIN requirement_shapes USING (shape_id)
 WHERE job_id = ANY(:job_ids::bigint[]);

-- name: files_of_jobs
-- Files of jobs with what decides what becomes of them: those they read, and those they are to write.
-- Indexes job_files_pkey, task_files_producer.
WITH used AS (
    SELECT job_id, file_id, is_master, type FROM job_files WHERE job_id = ANY(:job_ids::bigint[])
    UNION ALL
    SELECT out_job_id, file_id, false, type FROM task_files WHERE out_job_id = ANY(:job_ids::bigint[]))
SELECT jf.job_id, jf.is_master, jf.type AS dataset_type, f.file_id, f.dataset_id, f.type, f.status, f.lfn, f.attempt_nr,
       f.max_attempt, f.failed_attempt, f.max_failure, f.job_id AS owner_id, f.out_job_id, f.ram_count,
       coalesce(f.n_events, 0) AS events,
       -- an output has no size before it is registered
       f.fsize IS NOT NULL AS is_registered
  FROM used jf JOIN task_files f USING (file_id) ORDER BY f.file_id, jf.job_id;

-- name: input_of_set
-- Input of a job set that has not ended, as that of the job that owns it. Index task_files_set.
SELECT f.job_id, d.master_id IS NULL AS is_master, d.type AS dataset_type, f.file_id, f.dataset_id, f.type, f.status,
       f.lfn, f.attempt_nr, f.max_attempt, f.failed_attempt, f.max_failure, f.job_id AS owner_id, f.out_job_id,
       f.ram_count, coalesce(f.n_events, 0) AS events, true AS is_registered
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.jobset_id = :job_set_id AND f.status = 'running' ORDER BY f.file_id;

-- name: finish_files
-- Files of jobs that ended well, in one step: inputs that the jobs still own are finished, and so are outputs that the
-- catalogue has; what was left out is nooutput. Sizes and names are those of the pilots' reports, where there are any.
-- Files are held in order of id. Indexes job_files_pkey, task_files_producer.
WITH found AS MATERIALIZED (
    SELECT f.file_id, f.status AS was, f.job_id, false AS is_output, 'finished' AS wanted, NULL::jsonb AS told
      FROM job_files jf JOIN task_files f ON f.file_id = jf.file_id
     WHERE jf.job_id = ANY(:job_ids::bigint[]) AND f.job_id = jf.job_id AND f.status = 'running'
    UNION ALL
    SELECT f.file_id, f.status, f.out_job_id, true, CASE WHEN f.fsize IS NULL THEN 'nooutput' ELSE 'finished' END,
           p.report -> 'outputs' -> f.lfn
      FROM task_files f LEFT JOIN job_reports p ON p.job_id = f.out_job_id
     WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND f.type IN ('output', 'log', 'trn_output', 'trn_log')
       AND f.status IN ('running', 'defined')
), held AS MATERIALIZED (
    SELECT file_id FROM task_files WHERE file_id IN (SELECT file_id FROM found) ORDER BY file_id FOR NO KEY UPDATE
), moved AS (
    UPDATE task_files f
       SET status = e.wanted, guid = coalesce(e.told ->> 'guid', f.guid),
           checksum = coalesce('ad:' || (e.told ->> 'adler32'), f.checksum),
           fsize = CASE WHEN e.told IS NULL THEN f.fsize
                        ELSE trunc(coalesce(nullif(e.told ->> 'fsize', ''), '0')::numeric)::bigint END
      FROM found e
     WHERE f.file_id = e.file_id AND f.status = e.was AND (e.is_output OR f.job_id = e.job_id)
       AND (SELECT count(*) FROM held) > 0
    RETURNING f.file_id, f.task_id, f.dataset_id, f.type, e.was, f.status, coalesce(f.n_events, 0) AS n_events)
SELECT task_id, dataset_id, type, was, status, count(*) AS n_files, sum(n_events)::bigint AS n_events,
       array_agg(file_id) AS ids
  FROM moved GROUP BY task_id, dataset_id, type, was, status;

-- name: finish_inputs
-- Inputs that jobs which ended well still own: nothing else of them changes.
UPDATE task_files f SET status = 'finished'
  FROM unnest(:ids::bigint[], :job_ids::bigint[]) AS n (file_id, job_id)
 WHERE f.file_id = n.file_id AND f.status = 'running' AND f.job_id = n.job_id
RETURNING f.file_id, f.dataset_id, f.type, 'running' AS from_status, f.status, coalesce(f.n_events, 0) AS events;

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

-- name: move_outputs
-- Outputs of which no pilot said more take one step.
UPDATE task_files f SET status = :to_status::text
 WHERE f.file_id = ANY(:ids::bigint[]) AND f.status = :from_status::text
RETURNING f.file_id, f.dataset_id, f.type, :from_status::text AS from_status, f.status,
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
-- Unmerged outputs of jobs that still wait in state merging, by queue: of the first jobs of each, the oldest first.
-- Indexes jobs_task, task_files_producer.
WITH producers AS MATERIALIZED (
    SELECT queue, job_id FROM (
        SELECT j.queue, j.job_id, row_number() OVER (PARTITION BY j.queue ORDER BY j.job_id) AS place FROM jobs j
         WHERE j.task_id = :task_id AND j.status = 'merging'
           AND EXISTS (SELECT FROM task_files f WHERE f.out_job_id = j.job_id AND f.boundary_id = j.job_id
                          AND f.status = 'ready' AND f.type IN ('trn_output', 'trn_log'))) waiting
     WHERE place <= :at_most::int)
SELECT p.queue, f.file_id, f.dataset_id, f.type, f.lfn, coalesce(f.fsize, 0) AS fsize, f.n_events, f.start_event,
       f.end_event, f.first_event, f.boundary_id, f.lumi_block_nr, f.scope, f.guid, f.checksum, f.attempt_nr,
       f.ram_count, f.job_id, f.out_job_id
  FROM producers p JOIN task_files f ON f.out_job_id = p.job_id AND f.boundary_id = p.job_id
 WHERE f.status = 'ready' AND f.type IN ('trn_output', 'trn_log')
 ORDER BY p.queue, p.job_id, f.file_id;

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
