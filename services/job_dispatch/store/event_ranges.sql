-- name: plan_once
-- Until the commit, statements are planned once for all values: planning for sixteen partitions is dearer than reading
-- ranges. Such a plan may be older than most rows of its table: only ways that stay good while it grows are allowed.
-- told by: nobody; it sets how the next ones are planned
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);

-- name: lock_sets_of_jobs
-- The job sets of jobs that are no jumbo jobs, before their ranges: job generation locks them in this order, too.
-- told by: nobody; they are locked to be changed
SELECT s.job_set_id, s.is_search FROM job_sets s
 WHERE s.job_set_id IN (SELECT m.job_set_id FROM job_set_jobs m WHERE m.job_id = ANY(:job_ids::bigint[]))
 ORDER BY s.task_id, s.job_set_id FOR NO KEY UPDATE;

-- name: search_of_set
-- A search of points and how many of these are not evaluated. Index hpo_searches_set.
-- told by: PILOTS
SELECT h.most_points, h.n_points, h.points_per_generation, h.min_unevaluated, h.n_jobs,
       s.n_ready + s.n_processing AS n_unevaluated
  FROM hpo_searches h JOIN job_sets s USING (job_set_id) WHERE h.job_set_id = :job_set_id AND NOT h.is_over;

-- name: open_points
-- The next points of a search by their numbers; those that an optimiser added meanwhile, or that were evaluated by an
-- earlier set, are passed over. The job set is held. Index event_ranges_number.
-- done for: PILOTS
WITH chosen AS MATERIALIZED (
    SELECT h.task_id, h.dataset_id, h.file_id, h.job_set_id, h.range_attempts, n.point_id
      FROM hpo_searches h
     CROSS JOIN LATERAL generate_series(h.next_point, h.next_point + h.n_points + :n_points::int) AS n (point_id)
     WHERE h.job_set_id = :job_set_id
       AND NOT EXISTS (SELECT FROM event_ranges r WHERE r.task_id = h.task_id AND r.file_id = h.file_id
                          AND r.job_process_id = n.point_id)
     ORDER BY n.point_id LIMIT :n_points
), made AS (
    INSERT INTO event_ranges (task_id, dataset_id, file_id, status, job_process_id, def_min_event_id, def_max_event_id,
                              attempt_nr, event_offset, job_set_id)
    SELECT task_id, dataset_id, file_id, 0, point_id, point_id, point_id, range_attempts, 0, job_set_id FROM chosen
    RETURNING event_range_id, job_process_id
), counted AS (
    UPDATE hpo_searches SET n_points = n_points + m.n, next_point = m.last + 1
      FROM (SELECT count(*) AS n, max(job_process_id) AS last FROM made) m
     WHERE job_set_id = :job_set_id AND m.n > 0
)
SELECT event_range_id FROM made;

-- name: lock_sets_of_ranges
-- The job sets of ranges of a task that pilots name, and no other set of a jumbo job. Index event_ranges_number.
-- told by: nobody; they are locked to be changed
SELECT s.job_set_id FROM job_sets s
 WHERE s.job_set_id IN (
       SELECT r.job_set_id
         FROM unnest(:file_ids::bigint[], :process_ids::bigint[], :attempts::int[])
              AS w (file_id, process_id, attempt_nr)
         JOIN event_ranges r ON r.task_id = :task_id AND r.file_id = w.file_id
          AND r.job_process_id = w.process_id AND r.attempt_nr = w.attempt_nr)
 ORDER BY s.job_set_id FOR NO KEY UPDATE;

-- name: lock_sets_with_ranges
-- Job sets of a task with ranges that nobody has, for a jumbo job; who waited for a set that is empty by then gets the
-- next one. Index job_sets_open.
-- told by: nobody; they are locked to be changed
SELECT job_set_id FROM job_sets WHERE task_id = :task_id AND status = 'open' AND n_ready > 0
 ORDER BY job_set_id LIMIT :at_most FOR NO KEY UPDATE;

-- name: take_ranges_of_sets
-- Ranges of these sets that nobody has, now the jumbo job's. Index event_ranges_set.
-- done for: PILOTS
WITH free AS MATERIALIZED (
    SELECT r.event_range_id
      FROM unnest(:set_ids::bigint[]) AS s (job_set_id) CROSS JOIN LATERAL (
        SELECT e.event_range_id, e.file_id, e.job_process_id FROM event_ranges e
         WHERE e.task_id = :task_id AND e.job_set_id = s.job_set_id AND e.status = 0 AND e.job_id IS NULL AND e.attempt_nr > 0
         ORDER BY e.file_id, e.job_process_id LIMIT :n_ranges FOR NO KEY UPDATE SKIP LOCKED) r
     ORDER BY r.file_id, r.job_process_id LIMIT :n_ranges
), taken AS (
    UPDATE event_ranges r SET status = :to_status, job_id = :job_id, is_jumbo = true
      FROM free WHERE r.task_id = :task_id AND r.event_range_id = free.event_range_id AND r.status = ANY(:allowed::smallint[])
    RETURNING r.event_range_id, r.task_id, r.file_id, r.job_process_id, r.attempt_nr,
              r.def_min_event_id + coalesce(r.event_offset, 0) AS def_min_event_id,
              r.def_max_event_id + coalesce(r.event_offset, 0) AS def_max_event_id
)
SELECT t.event_range_id, t.task_id, t.file_id, t.job_process_id, t.attempt_nr, t.def_min_event_id, t.def_max_event_id,
       f.lfn, f.guid, f.scope
  FROM taken t JOIN task_files f ON f.file_id = t.file_id ORDER BY t.file_id, t.job_process_id;

-- name: count_ready_of_task
-- Ranges of a task that a jumbo job could be given now. Index job_sets_open.
-- told by: PILOTS
SELECT coalesce(sum(n_ready), 0)::bigint FROM job_sets WHERE task_id = :task_id AND status = 'open';

-- name: take_ranges
-- Ranges of the job's input files that nobody has, now the job's; those that another transaction holds are left to it.
-- Index event_ranges_ready.
-- done for: PILOTS
WITH free AS MATERIALIZED (
    SELECT r.event_range_id
      FROM job_files i CROSS JOIN LATERAL (
        SELECT e.event_range_id, e.job_process_id FROM event_ranges e
         WHERE e.task_id = :task_id AND e.file_id = i.file_id AND e.status = 0 AND e.job_id IS NULL AND e.attempt_nr > 0
         ORDER BY e.job_process_id LIMIT :n_ranges FOR NO KEY UPDATE SKIP LOCKED) r
     WHERE i.job_id = :job_id AND i.task_id = :task_id
     ORDER BY i.file_id, r.job_process_id LIMIT :n_ranges
), taken AS (
    UPDATE event_ranges r SET status = :to_status, job_id = :job_id, is_jumbo = false
      FROM free WHERE r.task_id = :task_id AND r.event_range_id = free.event_range_id AND r.status = ANY(:allowed::smallint[])
    RETURNING r.event_range_id, r.task_id, r.file_id, r.job_process_id, r.attempt_nr,
              r.def_min_event_id + coalesce(r.event_offset, 0) AS def_min_event_id,
              r.def_max_event_id + coalesce(r.event_offset, 0) AS def_max_event_id
)
SELECT t.event_range_id, t.task_id, t.file_id, t.job_process_id, t.attempt_nr, t.def_min_event_id, t.def_max_event_id,
       f.lfn, f.guid, f.scope
  FROM taken t JOIN task_files f ON f.file_id = t.file_id ORDER BY t.file_id, t.job_process_id;

-- name: count_ready
-- Ranges that a job could be given now. Index event_ranges_ready.
-- told by: PILOTS
SELECT count(*) FROM job_files i JOIN event_ranges e ON e.file_id = i.file_id AND e.task_id = i.task_id
 WHERE i.job_id = :job_id AND i.task_id = :task_id AND e.status = 0 AND e.job_id IS NULL AND e.attempt_nr > 0;

-- name: named_ranges
-- Ranges of a task by what pilots name them, each with the place of its name. Nobody else moves them: their jobs and job
-- sets are held. Index event_ranges_number.
-- told by: PILOTS
SELECT w.place - 1 AS place, r.event_range_id, r.status, r.job_id, r.attempt_nr,
       r.status = 0 AND EXISTS (SELECT FROM job_files i WHERE i.job_id = w.job_id AND i.file_id = r.file_id) AS is_input
  FROM unnest(:job_ids::bigint[], :file_ids::bigint[], :process_ids::bigint[], :attempts::int[])
       WITH ORDINALITY AS w (job_id, file_id, process_id, attempt_nr, place)
  JOIN event_ranges r ON r.task_id = :task_id AND r.file_id = w.file_id AND r.job_process_id = w.process_id
   AND r.attempt_nr = w.attempt_nr;

-- name: move_ranges
-- One step of ranges of a task that were judged; what the report does not say stays. Index event_ranges_id.
-- done for: PILOTS
UPDATE event_ranges r
   SET status = :to_status, job_id = w.job_id, error_code = coalesce(w.error_code, r.error_code),
       error_diag = coalesce(w.error_diag, r.error_diag), obj_store_id = coalesce(w.obj_store_id, r.obj_store_id),
       zip_row_id = coalesce(w.zip_row_id, r.zip_row_id),
       processed_up_to_event_id = CASE WHEN :is_processed::boolean THEN r.def_max_event_id
                                       ELSE r.processed_up_to_event_id END
  FROM unnest(:ids::bigint[], :job_ids::bigint[], :error_codes::int[], :error_diags::text[], :obj_store_ids::int[],
              :zip_row_ids::bigint[]) AS w (event_range_id, job_id, error_code, error_diag, obj_store_id, zip_row_id)
 WHERE r.task_id = :task_id AND r.event_range_id = w.event_range_id AND r.status = ANY(:allowed::smallint[])
RETURNING r.event_range_id;

-- name: copy_failed
-- The next attempts of failed ranges, which nobody has. A range whose attempts are used up gets a row that is not given
-- out: whether its task goes on without it is not decided here.
-- done for: PILOTS
INSERT INTO event_ranges (task_id, dataset_id, file_id, status, job_process_id, def_min_event_id, def_max_event_id,
                          attempt_nr, event_offset, is_jumbo, job_set_id)
SELECT task_id, dataset_id, file_id, :to_status, job_process_id, def_min_event_id, def_max_event_id, attempt_nr - 1,
       event_offset, is_jumbo, job_set_id
  FROM event_ranges WHERE task_id = :task_id AND event_range_id = ANY(:ids::bigint[])
ON CONFLICT DO NOTHING
RETURNING event_range_id;

-- name: note_refused
-- One row for each task counts them; only jobs that process events of the task are believed. Indexes
-- job_set_jobs_pkey, jumbo_jobs_pkey.
-- done for: PILOTS
INSERT INTO refused_range_reports AS r (task_id, n_reports, reason)
SELECT w.task_id, sum(w.n), (array_agg(w.reason ORDER BY w.job_id DESC))[1]
  FROM unnest(:task_ids::bigint[], :job_ids::bigint[], :numbers::int[], :reasons::text[]) AS w (task_id, job_id, n, reason)
 WHERE EXISTS (SELECT FROM job_set_jobs m WHERE m.job_id = w.job_id AND m.task_id = w.task_id)
    OR EXISTS (SELECT FROM jumbo_jobs u WHERE u.job_id = w.job_id AND u.task_id = w.task_id)
 GROUP BY w.task_id ORDER BY w.task_id
ON CONFLICT (task_id) DO UPDATE
   SET n_reports = r.n_reports + excluded.n_reports, reason = excluded.reason, last_at = orrery_now();

-- name: note_files
-- Files that ranges were written to; a file that is reported again is the same.
-- done for: PILOTS
INSERT INTO event_range_files (task_id, job_id, kind, lfn, obj_store_id, size_bytes, adler32, n_events, path_convention)
SELECT * FROM unnest(:task_ids::bigint[], :job_ids::bigint[], :kinds::text[], :lfns::text[], :obj_store_ids::int[],
                     :sizes::bigint[], :adler32s::text[], :n_events::bigint[], :path_conventions::int[])
ON CONFLICT (job_id, lfn) DO UPDATE SET
    obj_store_id = excluded.obj_store_id, size_bytes = excluded.size_bytes, adler32 = excluded.adler32,
    n_events = excluded.n_events, path_convention = excluded.path_convention
RETURNING job_id, lfn, zip_row_id;

-- name: whose_tasks
-- Whose tasks are, to decide of which of their jobs ranges are told. The key of tasks.
-- told by: PILOTS
SELECT task_id, user_name AS owner, vo FROM tasks WHERE task_id = ANY(:task_ids::bigint[]);

-- name: statuses
-- Ranges that jobs have or had. Index event_ranges_job.
-- told by: PILOTS
SELECT r.task_id, r.job_id, r.file_id, r.job_process_id, r.attempt_nr, r.status, r.error_code, r.error_diag
  FROM unnest(:task_ids::bigint[], :job_ids::bigint[]) AS w (task_id, job_id)
  JOIN event_ranges r ON r.job_id = w.job_id AND r.task_id = w.task_id
 ORDER BY r.job_id, r.file_id, r.job_process_id, r.attempt_nr DESC LIMIT :at_most;
