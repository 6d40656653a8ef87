-- What is told of a task: its ranges of events that failed for good. Few sets have any.
CREATE INDEX job_sets_fatal ON job_sets (task_id) WHERE n_fatal > 0;
