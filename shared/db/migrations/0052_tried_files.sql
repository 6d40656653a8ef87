-- Which files of a task were tried before: few, where a task may have ten million.
CREATE INDEX task_files_tried ON task_files (dataset_id, attempt_nr)
    WHERE attempt_nr > 0 AND status IN ('ready', 'picked', 'running');
