-- Invariants of counters and names: I3, I11. Every query returns task_id, entity, entity_id, sentence.

-- name: i3_input_counters
-- The counters of an input dataset equal its contents: used, finished, failed.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s): used/finished/failed say %s/%s/%s, contents are %s/%s/%s', d.dataset_id,
              d.dataset_name, d.n_files_used, d.n_files_finished, d.n_files_failed, c.used, c.finished, c.failed)
       AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE f.status IN ('picked', 'running', 'merging', 'finished', 'failed')) AS used,
              count(*) FILTER (WHERE f.status = 'finished') AS finished,
              count(*) FILTER (WHERE f.status = 'failed') AS failed
         FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.master_id IS NULL
   AND (d.n_files_used, d.n_files_finished, d.n_files_failed) IS DISTINCT FROM (c.used, c.finished, c.failed);

-- name: i3_event_counters
-- The events used are those of the files used.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s) says %s events used, its used files have %s', d.dataset_id, d.dataset_name,
              d.n_events_used, c.events) AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events) FILTER (
                  WHERE f.status IN ('picked', 'running', 'merging', 'finished', 'failed')), 0) AS events
         FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.master_id IS NULL AND d.n_events_used IS NOT NULL AND d.n_events_used <> c.events;

-- name: i3_output_counters
-- The counters of an output dataset equal its contents: used, finished, failed, and unmerged files on hold.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s): used/finished/failed/on hold say %s/%s/%s/%s, contents are %s/%s/%s/%s', d.dataset_id,
              d.dataset_name, d.n_files_used, d.n_files_finished, d.n_files_failed, d.n_files_on_hold, c.used,
              c.finished, c.failed, c.on_hold) AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE f.status IN ('picked', 'running', 'prepared', 'merging', 'finished', 'failed'))
                  AS used,
              count(*) FILTER (WHERE f.status = 'finished') AS finished,
              count(*) FILTER (WHERE f.status = 'failed') AS failed,
              count(*) FILTER (WHERE f.status = 'ready') AS on_hold
         FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND (d.n_files_used, d.n_files_finished, d.n_files_failed, d.n_files_on_hold)
       IS DISTINCT FROM (c.used, c.finished, c.failed, c.on_hold);

-- name: i3_counters_out_of_order
-- finished + failed <= used <= opened <= all, and waiting files are among the unused ones.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s): finished %s + failed %s, used %s, opened %s, all %s, waiting %s are out of order',
              d.dataset_id, d.dataset_name, d.n_files_finished, d.n_files_failed, d.n_files_used,
              d.n_files_to_be_used, d.n_files, d.n_files_waiting) AS sentence
  FROM task_datasets d
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.master_id IS NULL
   AND (d.n_files_finished + d.n_files_failed > d.n_files_used OR d.n_files_used > d.n_files_to_be_used
        OR d.n_files_to_be_used > d.n_files OR least(d.n_files_finished, d.n_files_failed, d.n_files_used) < 0
        OR d.n_files_waiting NOT BETWEEN 0 AND d.n_files);

-- name: i11_output_name_twice
-- The name of an output is given once in a task.
SELECT f.task_id, 'file' AS entity, min(f.file_id) AS entity_id,
       format('output name %s is given to the files %s', f.lfn, string_agg(f.file_id::text, ', ' ORDER BY f.file_id))
       AS sentence
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND f.type IN ('output', 'log', 'trn_output', 'trn_log')
 GROUP BY f.task_id, f.lfn HAVING count(*) > 1;

-- name: i11_serial_number_behind
-- The next serial number of a dataset's templates is beyond the files made from them. The outputs that a job names for
-- itself (loadXML) share one number, and so do the files of an output by expression.
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s) has %s files, but its templates gave only %s serial numbers', d.dataset_id,
              d.dataset_name, c.n_rows, s.given) AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (SELECT sum(o.serial_nr - 1) AS given FROM output_templates o
                       WHERE o.task_id = d.task_id AND o.dataset_id = d.dataset_id) s
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM task_parameters p WHERE p.task_id = d.task_id
                                        AND p.task_parameters -> 'loadXML' IS NOT NULL) AS of_xml) t
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM output_templates o WHERE o.dataset_id = d.dataset_id
                                        AND o.file_name_template LIKE 'regex|%') AS by_expression) e
  CROSS JOIN LATERAL (SELECT CASE WHEN t.of_xml OR e.by_expression THEN count(DISTINCT f.out_job_id)
                                  ELSE count(*) END AS n_rows
                        FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log') AND s.given < c.n_rows;

-- name: i11_seed_used_twice
-- A random seed serves one live or successful job; only a job that did not succeed hands it on.
SELECT j.task_id, 'file' AS entity, x.file_id AS entity_id,
       format('random seed %s is used by the jobs %s', x.file_id, string_agg(j.job_id::text, ', ' ORDER BY j.job_id))
       AS sentence
  FROM every_job j JOIN job_files x ON x.job_id = j.job_id
 WHERE j.task_id = ANY(:task_ids::bigint[]) AND x.type = 'random_seed'
   AND j.status NOT IN ('failed', 'closed', 'cancelled')
 GROUP BY j.task_id, x.file_id HAVING count(*) > 1;
