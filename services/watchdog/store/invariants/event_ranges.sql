-- Invariants of event ranges and job sets: I1, I2, I7, I8. Every query returns task_id, entity, entity_id, sentence.

-- name: i8_events_merged_twice
-- Merged ranges of a file have no event in common; two rows of one range are found elsewhere.
SELECT r.task_id, 'event_range' AS entity, r.event_range_id AS entity_id,
       format('events %s to %s of file %s are merged, and so are %s to %s', r.def_min_event_id, r.def_max_event_id,
              r.file_id, other.def_min_event_id, other.def_max_event_id) AS sentence
  FROM event_ranges r
  JOIN event_ranges other
    ON other.task_id = r.task_id AND other.file_id = r.file_id AND other.status = 9 AND other.event_range_id <> r.event_range_id
   AND (other.def_min_event_id, other.event_range_id) > (r.def_min_event_id, r.event_range_id)
   AND other.def_min_event_id <= r.def_max_event_id
   AND (other.def_min_event_id, other.def_max_event_id) <> (r.def_min_event_id, r.def_max_event_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.status = 9;

-- name: i8_processed_events_not_merged
-- Of a file that is finished and was merged, no processed range was left out.
SELECT r.task_id, 'event_range' AS entity, r.event_range_id AS entity_id,
       format('file %s is finished, and its events %s to %s were processed but not merged as others were', r.file_id,
              r.def_min_event_id, r.def_max_event_id) AS sentence
  FROM event_ranges r JOIN task_files f USING (file_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.status IN (3, 6) AND f.status = 'finished'
   AND EXISTS (SELECT FROM event_ranges m WHERE m.task_id = r.task_id AND m.file_id = r.file_id AND m.status = 9);

-- name: i8_events_not_merged
-- The merged ranges of a finished file cover all its events; of a task that was told to finish, or may lose some
-- (allowPartialFinish), some may be unprocessed, and are in ranges of their own; the log says it where it begins with the
-- task.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('file %s is finished; of its %s events %s are in merged ranges, %s in any range', f.file_id, f.n_events,
              c.n_merged, c.n_in_ranges) AS sentence
  FROM tasks t JOIN task_datasets d USING (task_id) JOIN task_files f USING (dataset_id)
  CROSS JOIN LATERAL (
       SELECT range_agg(int8range(r.def_min_event_id, r.def_max_event_id, '[]')) AS in_ranges,
              range_agg(int8range(r.def_min_event_id, r.def_max_event_id, '[]')) FILTER (WHERE r.status = 9) AS merged
         FROM event_ranges r WHERE r.task_id = f.task_id AND r.file_id = f.file_id) g
  CROSS JOIN LATERAL (SELECT (SELECT sum(upper(p) - lower(p)) FROM unnest(g.in_ranges) p) AS n_in_ranges,
                             (SELECT sum(upper(p) - lower(p)) FROM unnest(g.merged) p) AS n_merged) c
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.event_service = 1 AND NOT t.split_rule ? 'hpoWorkflow'
   AND d.master_id IS NULL AND f.type IN ('input', 'pseudo_input', 'pp_input') AND f.status = 'finished'
   AND c.n_merged < f.n_events
   AND (c.n_in_ranges < f.n_events OR NOT t.split_rule ? 'allowPartialFinish' AND NOT EXISTS (
       SELECT FROM transition_log l
        WHERE l.task_id = t.task_id AND l.entity = 'task' AND l.to_status = 'finishing')
       AND EXISTS (SELECT FROM transition_log l
                    WHERE l.task_id = t.task_id AND l.entity = 'task' AND l.from_status IS NULL));

-- name: i7_counters_of_job_set
-- The counters of a job set that is worked on are those of its ranges.
SELECT s.task_id, 'job_set' AS entity, s.job_set_id AS entity_id,
       format('job set %s counts %s and has %s (ready, exhausted, processing, finished, done, merged, fatal)',
              s.job_set_id,
              concat_ws(' ', s.n_ready, s.n_exhausted, s.n_processing, s.n_finished, s.n_done, s.n_merged, s.n_fatal),
              concat_ws(' ', c.ready, c.exhausted, c.processing, c.finished, c.done, c.merged, c.fatal)) AS sentence
  FROM job_sets s CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE r.status = 0 AND r.attempt_nr > 0) AS ready,
              count(*) FILTER (WHERE r.status = 0 AND r.attempt_nr = 0) AS exhausted,
              count(*) FILTER (WHERE r.status IN (1, 2)) AS processing, count(*) FILTER (WHERE r.status = 3) AS finished,
              count(*) FILTER (WHERE r.status = 6) AS done, count(*) FILTER (WHERE r.status = 9) AS merged,
              count(*) FILTER (WHERE r.status = 8) AS fatal
         FROM event_ranges r WHERE r.task_id = s.task_id AND r.job_set_id = s.job_set_id) c
 WHERE s.task_id = ANY(:task_ids::bigint[]) AND s.status IN ('open', 'merging')
   AND (s.n_ready, s.n_exhausted, s.n_processing, s.n_finished, s.n_done, s.n_merged, s.n_fatal)
       IS DISTINCT FROM (c.ready, c.exhausted, c.processing, c.finished, c.done, c.merged, c.fatal);

-- name: i1_range_of_no_live_row
-- Every range of an open job set has one row that can be, is being or was processed, unless it failed for good. A search
-- has as many as there are points so far.
SELECT s.task_id, 'job_set' AS entity, s.job_set_id AS entity_id,
       format('job set %s was cut into %s ranges and has %s that count', s.job_set_id,
              coalesce(h.n_points, s.n_ranges), c.n_rows) AS sentence
  FROM job_sets s LEFT JOIN hpo_searches h USING (job_set_id) CROSS JOIN LATERAL (
       SELECT count(*) AS n_rows FROM event_ranges r
        WHERE r.task_id = s.task_id AND r.job_set_id = s.job_set_id AND r.status IN (0, 1, 2, 3, 6, 8, 9)) c
 WHERE s.task_id = ANY(:task_ids::bigint[]) AND s.status IN ('open', 'merging')
   AND c.n_rows <> coalesce(h.n_points, s.n_ranges);

-- name: i2_job_set_without_job
-- A job set that is worked on has a job whose end was not counted, or waits for one to be made, or for points of an
-- optimiser.
SELECT s.task_id, 'job_set' AS entity, s.job_set_id AS entity_id,
       format('job set %s is %s without a job', s.job_set_id, s.status) AS sentence
  FROM job_sets s
 WHERE s.task_id = ANY(:task_ids::bigint[]) AND s.status IN ('open', 'merging') AND s.wants IS NULL
   AND NOT EXISTS (SELECT FROM hpo_searches h WHERE h.job_set_id = s.job_set_id AND h.points_per_generation IS NULL)
   AND NOT EXISTS (SELECT FROM job_set_jobs m JOIN jobs j USING (job_id)
                    WHERE m.job_set_id = s.job_set_id AND j.results_applied_at IS NULL);

-- name: i2_range_of_no_job
-- A range that is being processed is in the hands of a job whose end was not counted; what a jumbo job processed
-- waits for the jobs of its set.
SELECT r.task_id, 'event_range' AS entity, r.event_range_id AS entity_id,
       format('range %s is being processed by job %s, whose end was counted', r.event_range_id, r.job_id) AS sentence
  FROM event_ranges r LEFT JOIN jobs j USING (job_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.job_set_id IS NOT NULL AND r.status IN (1, 2, 3)
   AND (j.job_id IS NULL OR j.results_applied_at IS NOT NULL)
   AND NOT (r.status = 3 AND EXISTS (SELECT FROM jumbo_jobs u JOIN job_sets s ON s.job_set_id = r.job_set_id
                                      WHERE u.job_id = r.job_id AND s.status = 'open'));

-- name: i7_waiting_files
-- The files of a dataset that wait for real co-jumbo jobs are counted, and each belongs to a job set whose job has no
-- queue (or just ended, which is about to be counted).
SELECT d.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('dataset %s (%s) says %s files wait for real co-jumbo jobs; %s do, %s of them without a job that waits',
              d.dataset_id, d.dataset_name, d.n_files_waiting, c.n_waiting, c.n_lost) AS sentence
  FROM task_datasets d
  CROSS JOIN LATERAL (
       SELECT count(*) AS n_waiting, count(*) FILTER (WHERE NOT EXISTS (
                  SELECT FROM job_set_jobs m JOIN jobs j USING (job_id)
                   WHERE m.job_set_id = f.jobset_id AND j.queue IS NULL AND j.results_applied_at IS NULL
                     AND j.status <> 'merging')) AS n_lost
         FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.is_waiting) c
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND (d.n_files_waiting <> c.n_waiting OR c.n_lost > 0);

-- name: i7_file_of_waiting_set
-- The input of a job set whose job waits without a queue says so.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s waits for real co-jumbo jobs, but its file %s does not say so', j.job_id, f.file_id) AS sentence
  FROM jobs j JOIN job_set_jobs m USING (job_id) JOIN task_files f ON f.jobset_id = m.job_set_id
 WHERE j.task_id = ANY(:task_ids::bigint[]) AND j.status = 'waiting' AND j.queue IS NULL AND NOT f.is_waiting;
