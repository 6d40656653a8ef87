-- A job set whose next job its site does not take by its advertisement: until when it waits by itself.
ALTER TABLE job_sets ADD COLUMN retry_at timestamptz;
