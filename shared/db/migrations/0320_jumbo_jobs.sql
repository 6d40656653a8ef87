-- Jumbo jobs take events of all job sets of their task.
CREATE TABLE jumbo_jobs (
    job_id bigint PRIMARY KEY,
    task_id bigint NOT NULL,
    queue text NOT NULL,
    site text NOT NULL,
    n_processed int NOT NULL DEFAULT 0,
    -- when its end was counted
    ended_at timestamptz
);
CREATE INDEX jumbo_jobs_task ON jumbo_jobs (task_id, job_id);

ALTER TABLE jobs DROP CONSTRAINT jobs_job_type_check;
ALTER TABLE jobs ADD CONSTRAINT jobs_job_type_check
    CHECK (job_type IN ('scout', 'normal', 'merge', 'build', 'preprocess', 'jumbo'));

-- Jobs whose events jumbo jobs processed wait for their merge.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('job', 'waiting', 'merging'), ('job', 'assigned', 'merging'), ('job', 'activated', 'merging');
