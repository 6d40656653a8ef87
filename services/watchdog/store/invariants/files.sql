-- Invariants of files and event ranges: I1, I2, I9. Every query returns task_id, entity, entity_id, sentence. Several jobs
-- have the input of a task with event service, and the one unit of a task that searches points (hpoWorkflow).

-- name: i1_file_succeeded_twice
-- A unit of input was processed successfully by more than one attempt whose outputs are not lost.
SELECT s.task_id, 'file' AS entity, s.file_id AS entity_id,
       format('file %s of dataset %s was processed successfully by the jobs %s', s.file_id, s.dataset_id,
              array_to_string(s.job_ids, ', ')) AS sentence
  FROM (SELECT j.task_id, f.file_id, f.dataset_id, array_agg(j.job_id ORDER BY j.job_id) AS job_ids
          FROM every_job j JOIN job_files f ON f.job_id = j.job_id
         WHERE j.task_id = ANY(:task_ids::bigint[]) AND j.status = 'finished' AND f.is_master
           AND NOT EXISTS (SELECT FROM task_files o WHERE o.out_job_id = j.job_id AND o.status = 'lost')
         GROUP BY j.task_id, f.file_id, f.dataset_id HAVING count(*) > 1) s
  JOIN tasks t ON t.task_id = s.task_id
 WHERE t.event_service = 0 AND NOT t.split_rule ? 'hpoWorkflow';

-- name: i1_file_in_two_live_jobs
-- Two live jobs work on one unit of input.
SELECT s.task_id, 'file' AS entity, s.file_id AS entity_id,
       format('file %s of dataset %s is in the live jobs %s', s.file_id, s.dataset_id,
              array_to_string(s.job_ids, ', ')) AS sentence
  FROM (SELECT j.task_id, f.file_id, f.dataset_id, array_agg(j.job_id ORDER BY j.job_id) AS job_ids
          FROM jobs j JOIN job_files f ON f.job_id = j.job_id
         WHERE j.task_id = ANY(:task_ids::bigint[]) AND f.is_master
           AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled')
         GROUP BY j.task_id, f.file_id, f.dataset_id HAVING count(*) > 1) s
  JOIN tasks t ON t.task_id = s.task_id
 WHERE t.event_service = 0 AND NOT t.split_rule ? 'hpoWorkflow';

-- name: i1_event_range_twice
-- One event range has two rows that are being processed or were processed.
SELECT r.task_id, 'event_range' AS entity, min(r.event_range_id) AS entity_id,
       format('events %s to %s of file %s are owned by the rows %s', r.def_min_event_id, r.def_max_event_id, r.file_id,
              string_agg(r.event_range_id::text, ', ' ORDER BY r.event_range_id)) AS sentence
  FROM event_ranges r
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.status IN (1, 2, 3, 6, 9)
 GROUP BY r.task_id, r.file_id, r.def_min_event_id, r.def_max_event_id HAVING count(*) > 1;

-- name: i2_picked_without_chunk
-- A picked file belongs to an offered chunk.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('file %s is picked, but its chunk %s is %s', f.file_id, coalesce(f.chunk_id::text, '(none)'),
              coalesce(c.status, 'absent')) AS sentence
  FROM task_datasets d JOIN task_files f USING (dataset_id) LEFT JOIN chunks c ON c.chunk_id = f.chunk_id
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND f.status = 'picked' AND c.status IS DISTINCT FROM 'offered';

-- name: i2_running_input_without_job
-- A running input belongs to a job that is live or whose end was not counted yet, or to an open job set.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('input file %s is running, but its job %s %s', f.file_id, coalesce(f.job_id::text, '(none)'),
              CASE WHEN j.job_id IS NULL THEN 'is not among the live jobs' ELSE 'is ' || j.status || ' and counted' END)
       AS sentence
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id
  LEFT JOIN jobs j ON j.job_id = f.job_id
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND f.status = 'running' AND d.master_id IS NULL
   AND f.type IN ('input', 'pseudo_input', 'pp_input')
   AND (j.job_id IS NULL OR j.results_applied_at IS NOT NULL)
   AND NOT EXISTS (SELECT FROM job_sets s WHERE s.job_set_id = f.jobset_id AND s.status IN ('open', 'merging'));

-- name: i2_running_output_without_job
-- A running output belongs to a job that is live, or whose end was not counted yet.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('output file %s is %s, but no live job owns it (producer %s, user %s)', f.file_id, f.status,
              coalesce(f.out_job_id::text, 'none'), coalesce(f.job_id::text, 'none')) AS sentence
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND f.status IN ('running', 'merging')
   AND f.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND NOT EXISTS (SELECT FROM jobs j
                    WHERE j.job_id IN (f.out_job_id, f.job_id) AND j.results_applied_at IS NULL);

-- name: i2_live_job_without_its_file
-- The master inputs of a live job are running, and say that this job has them.
SELECT j.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('job %s is %s, but its input file %s is %s with job %s', j.job_id, j.status, f.file_id, f.status,
              coalesce(f.job_id::text, '(none)')) AS sentence
  FROM jobs j
  JOIN tasks t ON t.task_id = j.task_id
  JOIN job_files x ON x.job_id = j.job_id
  JOIN task_files f ON f.file_id = x.file_id
 WHERE j.task_id = ANY(:task_ids::bigint[]) AND x.is_master AND t.event_service = 0 AND NOT t.split_rule ? 'hpoWorkflow'
   AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled')
   AND (f.status NOT IN ('running', 'merging') OR (j.job_type <> 'merge' AND f.job_id IS DISTINCT FROM j.job_id));

-- name: i2_input_files_missing
-- An input dataset has as many rows as it says.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s) says %s units of input and has %s', d.dataset_id, d.dataset_name, d.n_files, c.n_rows)
       AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (SELECT count(*) AS n_rows FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.status <> 'removed' AND d.n_files <> c.n_rows;

-- name: i9_too_many_attempts
-- No unit of input is tried, or fails, more often than it may; a failed attempt is an attempt.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('file %s: attempt %s of %s, failed attempts %s of %s', f.file_id, f.attempt_nr,
              coalesce(f.max_attempt::text, 'any'), f.failed_attempt, coalesce(f.max_failure::text, 'any')) AS sentence
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = ANY(:task_ids::bigint[])
   AND (f.attempt_nr > f.max_attempt OR f.failed_attempt > f.max_failure OR f.failed_attempt > f.attempt_nr);

-- name: i9_attempts_without_jobs
-- Each counted attempt is the end of a job that did not succeed; each counted failure one that failed by itself. Of tasks
-- all of whose jobs are still known.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('file %s counts %s attempts and %s failures; its jobs make %s and %s', f.file_id, f.attempt_nr,
              f.failed_attempt, c.ended, c.failed) AS sentence
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id JOIN tasks t ON t.task_id = f.task_id
  CROSS JOIN LATERAL (
       SELECT count(*) AS ended, count(*) FILTER (
                  WHERE j.status = 'failed' AND j.error_source = 'payload') AS failed
         FROM job_files x JOIN every_job j ON j.job_id = x.job_id
        WHERE x.file_id = f.file_id AND j.results_applied_at IS NOT NULL AND j.status <> 'finished') c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND f.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
   AND t.event_service = 0 AND NOT t.split_rule ? 'hpoWorkflow' AND (f.attempt_nr > 0 OR f.failed_attempt > 0)
   AND NOT EXISTS (SELECT FROM archive_days_of_tasks a JOIN retention_positions p ON p.rule = 'job_files'
                    WHERE a.task_id = t.task_id AND a.day <= (p.at AT TIME ZONE 'UTC')::date)
   AND (f.attempt_nr > c.ended OR f.failed_attempt > c.failed);
