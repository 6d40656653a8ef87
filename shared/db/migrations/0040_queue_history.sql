-- What happened at queues, by the hour: brokerage looks back 6 hours at outcomes and 4 days at waiting times.
CREATE TABLE queue_outcomes (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    gshare text NOT NULL,
    task_id bigint NOT NULL,
    n_started int NOT NULL DEFAULT 0,
    n_finished int NOT NULL DEFAULT 0,
    n_failed int NOT NULL DEFAULT 0,
    n_closed int NOT NULL DEFAULT 0,
    n_cancelled int NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, queue, gshare, task_id)
) WITH (fillfactor = 70);
CREATE INDEX queue_outcomes_task ON queue_outcomes (task_id, hour);

-- Sums, so that a weighted mean and its confidence limit can be computed over any span of hours.
CREATE TABLE queue_waits (
    hour timestamptz NOT NULL,
    queue text NOT NULL,
    gshare text NOT NULL,
    job_type text NOT NULL,
    n_jobs int NOT NULL,
    wait_s double precision NOT NULL,
    wait_squared_s2 double precision NOT NULL,
    PRIMARY KEY (hour, queue, gshare, job_type)
) WITH (fillfactor = 70);

INSERT INTO versions (name) VALUES ('statistics') ON CONFLICT (name) DO NOTHING;
