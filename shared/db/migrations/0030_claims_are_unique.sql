-- A job goes to at most one pilot: refused by the database, whatever a dispatcher believes.
CREATE UNIQUE INDEX job_claims_job ON job_claims (job_id);

-- The replicas of the dispatcher that are alive: each prefers the jobs of its own residue class, so that two replicas
-- seldom try the same job. Losing this table costs speed only.
CREATE TABLE dispatch_replicas (
    replica text PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT orrery_now()
);
