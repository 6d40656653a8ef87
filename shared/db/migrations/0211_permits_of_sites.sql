-- Jobs that a dispatcher may claim though a limit of their site means them: they count like running ones until they are.
CREATE TABLE site_limit_permits (
    job_id bigint PRIMARY KEY,
    made_at timestamptz NOT NULL DEFAULT orrery_now()
);

-- Delays of sites that have begun, by rule and site, and the job whose match began them.
CREATE TABLE site_delays (
    name text PRIMARY KEY,
    job_id bigint NOT NULL,
    ends_at timestamptz NOT NULL
);

-- What runs at the queues of a site, of VOs with task queues.
CREATE INDEX jobs_running_with_order_key ON jobs (queue, order_key_id)
    WHERE order_key_id <> 0 AND status IN ('sent', 'starting', 'running');
