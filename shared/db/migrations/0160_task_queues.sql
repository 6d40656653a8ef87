-- Groups of users: what each is due, and how it is divided (DIRAC: Priority implementation).
CREATE TABLE user_groups (
    name text NOT NULL,
    vo text NOT NULL,
    job_share double precision NOT NULL DEFAULT 1000 CHECK (job_share >= 0),
    job_sharing boolean NOT NULL DEFAULT false,         -- the group's share is not divided among its users
    allows_background boolean NOT NULL DEFAULT false,   -- jobs of a very low user priority may wait for all others
    PRIMARY KEY (vo, name)
);

-- What the order of dispatch depends on, shared by all jobs of one task queue. Two queues with one identity do not
-- exist: `identity` is a digest of all that follows but the times.
CREATE TABLE task_queues (
    task_queue_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity text NOT NULL UNIQUE,
    vo text NOT NULL,
    user_name text NOT NULL,
    user_group text NOT NULL,
    cpu_segment_s int NOT NULL,
    sites text[] NOT NULL,
    banned_sites text[] NOT NULL,
    platforms text[] NOT NULL,
    tags text[] NOT NULL,
    job_types text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    used_at timestamptz NOT NULL DEFAULT orrery_now()   -- when jobs were last made for it, to a minute
);

-- The jobs of one user priority in a task queue: what a lane of the dispatcher belongs to beside its share.
CREATE TABLE order_keys (
    order_key_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_queue_id int NOT NULL REFERENCES task_queues ON DELETE CASCADE,
    user_priority smallint NOT NULL,
    UNIQUE (task_queue_id, user_priority)
);
