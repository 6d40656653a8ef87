-- Input that tasks wait for on tape: asked for, brought to disk, or given up.
CREATE TABLE stage_ins (
    stage_in_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    vo text NOT NULL,
    user_name text NOT NULL,
    dataset_id bigint NOT NULL,
    dataset_name text NOT NULL,
    source_storage text NOT NULL,
    destination_storage text NOT NULL,
    n_files int NOT NULL,
    n_bytes bigint NOT NULL,
    n_staged int NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'requested' CHECK (status IN ('requested', 'active', 'done', 'failed')),
    requested_at timestamptz NOT NULL DEFAULT orrery_now(),
    started_at timestamptz,
    due_at timestamptz,                       -- of the built-in catalogue; outside the end is told
    ended_at timestamptz,
    error text
);
CREATE UNIQUE INDEX stage_ins_once ON stage_ins (task_id, dataset_id) WHERE status IN ('requested', 'active');
CREATE INDEX stage_ins_open ON stage_ins (stage_in_id) WHERE status IN ('requested', 'active');

ALTER TABLE catalogue_requests DROP CONSTRAINT catalogue_requests_kind_check;
ALTER TABLE catalogue_requests ADD CONSTRAINT catalogue_requests_kind_check CHECK (kind IN
    ('read', 'create', 'add_files', 'remove_files', 'close', 'reopen', 'keep', 'move', 'expire', 'release', 'stage'));
