-- Reports of event ranges that were refused, one row for each task: most came after the end of their job.
CREATE TABLE refused_range_reports (
    task_id bigint PRIMARY KEY,
    n_reports bigint NOT NULL,
    reason text NOT NULL,
    last_at timestamptz NOT NULL DEFAULT orrery_now()
);
COMMENT ON TABLE refused_range_reports IS 'how many reports of event ranges of a task were refused, and why the last one was';
