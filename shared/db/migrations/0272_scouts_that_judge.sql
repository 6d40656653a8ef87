-- A task's needs are measured again when so many of its jobs have finished: after its scouts, and when a rule asks for it.
ALTER TABLE task_job_counts DROP COLUMN measures_again;
ALTER TABLE task_job_counts ADD COLUMN measures_at bigint;

-- What later jobs measure may exhaust a running task too.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES ('task', 'running', 'exhausted');
