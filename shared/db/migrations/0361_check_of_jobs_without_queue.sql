-- Reads all jobs, while everybody else reads and writes them.
ALTER TABLE jobs VALIDATE CONSTRAINT jobs_without_queue_wait;
