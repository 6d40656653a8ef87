-- What is told of tasks that ended long ago and whose rows were dropped by the watchdog's rules of retention.

-- name: archived_task
-- A task as it was when it was archived. By primary key.
-- told by: DETAILS; its state by STATES
SELECT task_id, user_name, vo, status, task, task_parameters, datasets, archived_at FROM tasks_archive
 WHERE task_id = :task_id;

-- name: archived_files
-- The first files of each dataset of an archived task. Index task_files_archive_pkey.
-- told by: DETAILS
SELECT d.dataset_id, f.file
  FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
 CROSS JOIN LATERAL (
       SELECT one.file FROM task_files_archive a CROSS JOIN LATERAL jsonb_array_elements(a.files) one (file)
        WHERE a.task_id = :task_id AND a.dataset_id = d.dataset_id
        ORDER BY a.first_file_id, (one.file ->> 'file_id')::bigint LIMIT :at_most::int) f;
