-- Copies of one job (useJobCloning): their job set has no ranges, and the first of them that starts or stores counts.
ALTER TABLE job_set_jobs DROP CONSTRAINT job_set_jobs_role_check;
ALTER TABLE job_set_jobs ADD CONSTRAINT job_set_jobs_role_check CHECK (role IN ('consumer', 'merge', 'clone'));
