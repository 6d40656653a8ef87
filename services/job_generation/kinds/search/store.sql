-- name: begin_search
-- A search and the job set that works on it; one that goes on with another set keeps the number of its jobs.
INSERT INTO hpo_searches AS h (file_id, task_id, dataset_id, job_set_id, most_points, points_per_generation,
                               min_unevaluated, range_attempts, n_points)
SELECT :file_id, :task_id, :dataset_id, :job_set_id, :most_points, :per_generation, :min_unevaluated, :attempts,
       (SELECT count(*) FROM event_ranges WHERE task_id = :task_id AND job_set_id = :job_set_id)
ON CONFLICT (file_id) DO UPDATE
   SET job_set_id = excluded.job_set_id, n_points = excluded.n_points, next_point = 1, is_over = false,
       n_jobs = CASE WHEN h.is_over THEN 0 ELSE h.n_jobs END;

-- name: mark_search
-- The job set of a search.
UPDATE job_sets SET is_search = true WHERE job_set_id = :job_set_id;

-- name: open_searches
-- Job sets of a task that search. Index job_sets_open.
SELECT job_set_id FROM job_sets WHERE task_id = :task_id AND status = 'open' AND is_search ORDER BY job_set_id;

-- name: search_of_set
-- The search that a set works on. Index hpo_searches_set.
SELECT most_points, n_points, points_per_generation, min_unevaluated, n_jobs FROM hpo_searches
 WHERE job_set_id = :job_set_id FOR NO KEY UPDATE;

-- name: note_jobs
-- Jobs were made for a search, or taken back unused.
UPDATE hpo_searches SET n_jobs = greatest(0, n_jobs + :n_jobs) WHERE job_set_id = :job_set_id;

-- name: end_search
-- A search is over.
UPDATE hpo_searches SET is_over = true WHERE job_set_id = :job_set_id;

-- name: has_points
-- Whether an optimiser added points. Index hpo_points_pkey.
SELECT EXISTS (SELECT FROM hpo_points WHERE task_id = :task_id);

-- name: add_ranges
-- Points that were added become ranges of the set that searches. Indexes hpo_points_pkey, event_ranges_number.
WITH new AS (
    INSERT INTO event_ranges (task_id, dataset_id, file_id, status, job_process_id, def_min_event_id, def_max_event_id,
                              attempt_nr, event_offset, job_set_id)
    SELECT h.task_id, h.dataset_id, h.file_id, 0, p.point_id, p.point_id, p.point_id, h.range_attempts, 0, h.job_set_id
      FROM hpo_searches h JOIN hpo_points p ON p.task_id = h.task_id
     WHERE h.job_set_id = :job_set_id AND NOT h.is_over
       AND NOT EXISTS (SELECT FROM event_ranges r WHERE r.task_id = h.task_id AND r.file_id = h.file_id
                          AND r.job_process_id = p.point_id)
     ORDER BY p.added_at, p.point_id
    RETURNING event_range_id)
UPDATE hpo_searches SET n_points = n_points + (SELECT count(*) FROM new) WHERE job_set_id = :job_set_id;
