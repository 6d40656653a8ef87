-- name: preprocess_unit
-- What the pre-processing job of a task works on. Indexes task_datasets_task, task_files_state.
SELECT f.file_id, f.dataset_id, f.status, f.ram_count AS ram_mb, f.attempt_nr AS n_attempts
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type = 'pp_input' ORDER BY f.file_id LIMIT 1;

-- name: note_state
-- How far the pre-processing of a task is.
UPDATE tasks SET split_rule = split_rule || jsonb_build_object('usePrePro', :state::int), modification_time = orrery_now()
 WHERE task_id = :task_id;

-- name: keep_result
-- What a pre-processing job returned; a job after a repeated one has the last word.
INSERT INTO preprocessing_results AS p (task_id, job_id, returned) VALUES (:task_id, :job_id, :returned::jsonb)
ON CONFLICT (task_id) DO UPDATE SET job_id = excluded.job_id, returned = excluded.returned, ended_at = orrery_now();
