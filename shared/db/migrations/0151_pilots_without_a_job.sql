-- Pilots that got no job, by queue and by why: what a job that waits there is explained with.
CREATE TABLE pilots_without_a_job (
    queue text NOT NULL,
    why text NOT NULL,
    n_pilots bigint NOT NULL,
    reason text NOT NULL,                     -- what the last of them was told
    last_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (queue, why)
);
