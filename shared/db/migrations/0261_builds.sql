-- Build jobs: what a task's sources are compiled to, once for each site.
CREATE TABLE builds (
    task_id bigint NOT NULL,
    site text NOT NULL,
    -- the build job that is under way
    job_id bigint,
    -- the library, once it is made
    file_id bigint,
    n_failures integer NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, site)
);
