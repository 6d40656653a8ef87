-- Jobs wherever they live, and what the watchdog remembers between two runs.

-- For questions about all attempts at a file; dispatch and generation read `jobs` and `jobs_archive` themselves.
CREATE VIEW every_job AS
    SELECT job_id, task_id, status, attempt_number, job_type, error_source, error_code, results_applied_at,
           creation_time, end_time
      FROM jobs
    UNION ALL
    SELECT job_id, task_id, status, attempt_number, job_type, error_source, error_code, results_applied_at,
           creation_time, end_time
      FROM jobs_archive;

-- One row per watch: when it last ran, and until when it keeps its hands still after an outage of our own.
CREATE TABLE watch_runs (
    watch text PRIMARY KEY,
    last_run_at timestamptz NOT NULL,
    grace_until timestamptz,
    grace_reason text
);

-- What the reconciling sweep announced again, how often and when: the waits between two announcements double, so that
-- a service that is merely behind is not given its backlog twice.
CREATE TABLE sweep_marks (
    kind text NOT NULL,
    entity_id bigint NOT NULL,
    times int NOT NULL DEFAULT 1,
    swept_at timestamptz NOT NULL,
    PRIMARY KEY (kind, entity_id)
);
CREATE INDEX sweep_marks_old ON sweep_marks (swept_at);

-- What the watches look for.
CREATE INDEX tasks_changed ON tasks (state_change_time);
CREATE INDEX tasks_frozen ON tasks (frozen_time) WHERE frozen_time IS NOT NULL;
CREATE INDEX chunks_latest ON chunks (task_id, chunk_id DESC);
