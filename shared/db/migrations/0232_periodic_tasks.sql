-- Tasks that are submitted again every period until their end.
CREATE TABLE periodic_tasks (
    periodic_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_name varchar(128) NOT NULL,
    user_name varchar(128) NOT NULL,
    vo varchar(16) NOT NULL,
    task_parameters jsonb NOT NULL,
    caller jsonb NOT NULL,                  -- who submitted it: each task is submitted with these rights
    period_s bigint NOT NULL CHECK (period_s >= 60),
    status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'ended')),
    next_at timestamptz NOT NULL,
    ends_at timestamptz,
    n_submitted int NOT NULL DEFAULT 0,
    n_refused int NOT NULL DEFAULT 0,       -- refused one after the other since a task was accepted
    last_task_id bigint,
    last_error text,
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),
    state_change_time timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX periodic_tasks_due ON periodic_tasks (next_at) WHERE status = 'active';
CREATE INDEX periodic_tasks_user ON periodic_tasks (user_name, status);
