-- The order keys that waiting jobs of a VO shall have ('' of jobs without one) since its configuration says so: how far
-- they were given again. `wanted` is the configuration in words; there are two passes, as another process may know of it
-- some seconds later.
CREATE TABLE order_key_sweeps (
    vo text PRIMARY KEY,
    wanted text NOT NULL,
    passes_left smallint NOT NULL,
    after_task_id bigint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT orrery_now(),
    changed_at timestamptz NOT NULL DEFAULT orrery_now()
);

-- Tasks whose waiting jobs get their order keys again, as their share has changed.
CREATE TABLE order_key_changes (
    task_id bigint PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT orrery_now()
);
