-- Every step of a file writes to every index of its table. Files of a task are those of its datasets, by the indexes
-- task_datasets_task and task_files_state.
DROP INDEX task_files_task;
DROP INDEX task_files_lfn;
