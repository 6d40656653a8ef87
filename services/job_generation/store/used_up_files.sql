-- name: owner_of_task
-- Whose a task is.
-- told by: DETAILS
SELECT user_name AS owner, vo FROM tasks WHERE task_id = :task_id;

-- name: used_up_files
-- Files in object stores that no range of a task needs any more, by the name of the file or, where a range's output is in
-- no larger file, of the range; those that were deleted only where they are named. Indexes event_ranges_id,
-- event_ranges_past_task.
-- told by: DETAILS
SELECT w.name, w.job_id, w.obj_store_id, w.path_convention, w.size_bytes, count(*) AS n_ranges,
       bool_or(w.file_not_deleted = 'Y') AS waits
  FROM (SELECT coalesce(z.lfn, format('%s-%s-%s-%s-%s', r.task_id, r.job_id, r.file_id, r.job_process_id, r.attempt_nr)) AS name,
               coalesce(z.job_id, r.job_id) AS job_id, coalesce(z.obj_store_id, r.obj_store_id) AS obj_store_id,
               coalesce(z.path_convention, r.path_convention) AS path_convention, z.size_bytes, r.file_not_deleted
          FROM (SELECT task_id, job_id, file_id, job_process_id, attempt_nr, zip_row_id, obj_store_id, path_convention,
                       file_not_deleted FROM event_ranges
                 WHERE task_id = :task_id AND coalesce(zip_row_id, obj_store_id) IS NOT NULL
                UNION ALL
                SELECT task_id, job_id, file_id, job_process_id, attempt_nr, zip_row_id, obj_store_id, path_convention,
                       file_not_deleted FROM event_ranges_past
                 WHERE task_id = :task_id AND coalesce(zip_row_id, obj_store_id) IS NOT NULL) r
          LEFT JOIN event_range_files z USING (zip_row_id)) w
 WHERE :names::text[] IS NULL OR w.name = ANY(:names::text[])
 GROUP BY w.name, w.job_id, w.obj_store_id, w.path_convention, w.size_bytes
HAVING bool_and(w.file_not_deleted IS NOT NULL)
   AND (:names::text[] IS NOT NULL OR bool_or(w.file_not_deleted = 'Y'))
 ORDER BY w.job_id, w.name LIMIT :at_most::int;

-- name: note_deleted
-- Files of ranges were deleted. Index event_ranges_id.
-- done for: PRODUCTION
UPDATE event_ranges r SET file_not_deleted = 'N'
 WHERE r.task_id = :task_id AND r.file_not_deleted = 'Y'
   AND coalesce((SELECT z.lfn FROM event_range_files z WHERE z.zip_row_id = r.zip_row_id),
                format('%s-%s-%s-%s-%s', r.task_id, r.job_id, r.file_id, r.job_process_id, r.attempt_nr))
       = ANY(:names::text[]);

-- name: note_deleted_of_past
-- The same of ranges of earlier job sets. Index event_ranges_past_task.
-- done for: PRODUCTION
UPDATE event_ranges_past r SET file_not_deleted = 'N'
 WHERE r.task_id = :task_id AND r.file_not_deleted = 'Y'
   AND coalesce((SELECT z.lfn FROM event_range_files z WHERE z.zip_row_id = r.zip_row_id),
                format('%s-%s-%s-%s-%s', r.task_id, r.job_id, r.file_id, r.job_process_id, r.attempt_nr))
       = ANY(:names::text[]);

-- name: record_deletion
-- Who said that which files were deleted.
-- done for: PRODUCTION
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, 'used_up_files.deleted', :target, 'accepted', :details);
