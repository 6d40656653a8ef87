-- A job that stands for a job set while no queue takes a co-jumbo job has no queue: it waits for jumbo jobs, or for a
-- real co-jumbo job. Jobs of earlier versions all have one; they are looked at, and the index of those without is built,
-- by later migrations, under weaker locks.
ALTER TABLE jobs ALTER COLUMN queue DROP NOT NULL;
ALTER TABLE jobs ADD CONSTRAINT jobs_without_queue_wait CHECK (queue IS NOT NULL OR status IN
    ('waiting', 'merging', 'finished', 'failed', 'closed', 'cancelled')) NOT VALID;
ALTER TABLE jobs_archive ALTER COLUMN queue DROP NOT NULL;
-- Such a chunk holds no files: job sets that wait have them.
ALTER TABLE chunks ADD COLUMN is_for_waiting boolean NOT NULL DEFAULT false;
