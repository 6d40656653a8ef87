-- Changes of priority or share of the waiting jobs of a task that are under way; NULL: stays as it is.
CREATE TABLE job_order_changes (
    task_id bigint PRIMARY KEY,
    priority int,
    gshare text,
    n_jobs bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT orrery_now(),
    moved_at timestamptz NOT NULL DEFAULT orrery_now(),
    CHECK (priority IS NOT NULL OR gshare IS NOT NULL)
);
CREATE INDEX job_order_changes_turn ON job_order_changes (moved_at);
