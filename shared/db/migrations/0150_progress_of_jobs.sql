-- What the pilot of a running job said last: node, sub status, times, metrics; replaced in place, so no other index.
CREATE TABLE job_progress (
    job_id bigint PRIMARY KEY,
    progress jsonb NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT orrery_now()
) WITH (fillfactor = 70);

-- The end of a payload's output, which pilots send in debug mode.
CREATE TABLE job_stdout (
    job_id bigint PRIMARY KEY,
    stdout text NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX job_stdout_old ON job_stdout (reported_at);
