-- Who acquired a job: its reports come from the same subject. NULL: claimed before this was kept.
ALTER TABLE job_claims ADD COLUMN subject text;
