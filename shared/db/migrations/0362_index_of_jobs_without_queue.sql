-- Reads all jobs, while everybody else reads them.
CREATE INDEX jobs_without_queue ON jobs (task_id) WHERE queue IS NULL AND status = 'waiting';
