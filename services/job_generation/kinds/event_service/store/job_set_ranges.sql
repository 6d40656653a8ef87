-- name: ranges_of_job
-- Ranges that a job has. Index event_ranges_job.
SELECT event_range_id, status, attempt_nr FROM event_ranges
 WHERE task_id = :task_id AND job_id = :job_id AND job_set_id = :job_set_id AND status = ANY(:states::smallint[])
 ORDER BY event_range_id FOR NO KEY UPDATE;

-- name: ranges_of_set
-- Ranges of a set. Index event_ranges_set.
SELECT event_range_id, status, attempt_nr FROM event_ranges
 WHERE task_id = :task_id AND job_set_id = :job_set_id AND status = ANY(:states::smallint[]) ORDER BY event_range_id FOR NO KEY UPDATE;

-- name: move_ranges
-- Ranges change their state; those that are released belong to no job, and have one attempt less where it counts. What
-- they were written to can be deleted once nobody reads it any more.
UPDATE event_ranges SET status = :to_status::smallint, attempt_nr = greatest(attempt_nr - :attempts::int, 0),
       job_id = CASE WHEN :to_status::smallint = 0 THEN NULL ELSE job_id END,
       file_not_deleted = CASE WHEN :is_used_up::boolean AND coalesce(zip_row_id, obj_store_id) IS NOT NULL THEN 'Y'
                               ELSE file_not_deleted END
 WHERE task_id = :task_id AND event_range_id = ANY(:ids::bigint[]) AND status = ANY(:allowed::smallint[])
RETURNING event_range_id;

-- name: copy_ranges
-- Next attempts of ranges whose result is not used.
INSERT INTO event_ranges (task_id, dataset_id, file_id, status, job_process_id, def_min_event_id, def_max_event_id,
                          attempt_nr, event_offset, is_jumbo, job_set_id)
SELECT task_id, dataset_id, file_id, 0, job_process_id, def_min_event_id, def_max_event_id, attempt_nr - 1,
       event_offset, is_jumbo, job_set_id
  FROM event_ranges WHERE task_id = :task_id AND event_range_id = ANY(:ids::bigint[]) AND attempt_nr > 0
ON CONFLICT DO NOTHING
RETURNING event_range_id;
