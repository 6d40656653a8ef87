-- A jumbo job that was taken back before a pilot had it is no attempt in vain.
ALTER TABLE jumbo_jobs ADD COLUMN was_closed boolean NOT NULL DEFAULT false;
