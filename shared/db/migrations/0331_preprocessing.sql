-- What the pre-processing job of a task returned, until the task is refined with it.
CREATE TABLE preprocessing_results (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    job_id bigint NOT NULL,
    returned jsonb NOT NULL,        -- its metadata as reported
    ended_at timestamptz NOT NULL DEFAULT orrery_now()
);
COMMENT ON TABLE preprocessing_results IS 'what the pre-processing job of a task returned';

-- A task that ended before its pre-processing was done begins with that when it is tried again; what a pre-processing
-- job works on is taken out of its task afterwards.
INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('task', 'rerefine', 'topreprocess'), ('task', 'toretry', 'topreprocess'), ('dataset', 'done', 'removed');
