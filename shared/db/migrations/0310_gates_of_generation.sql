-- One gate for each share, or work queue that is throttled by itself, and resource type: whoever offers input holds its
-- row, so that every generator goes by the same counts and serves tasks in the same order.
CREATE TABLE generation_gates (
    gshare text NOT NULL,
    resource_type text NOT NULL,
    -- 0: of a share
    work_queue_id int NOT NULL DEFAULT 0,
    -- jobs by state as they were counted, and those that were offered since
    counted_at timestamptz,
    by_status jsonb NOT NULL DEFAULT '{}',
    -- the cycle: tasks that were served in it, those of them with super-high priority, and how many of each group
    n_tasks int NOT NULL DEFAULT 0,
    n_super_high int NOT NULL DEFAULT 0,
    by_group jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (gshare, resource_type, work_queue_id)
);
