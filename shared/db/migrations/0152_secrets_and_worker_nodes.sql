-- What people keep for the payloads of their tasks (useSecrets): given to pilots with the job, shown to the owner only.
CREATE TABLE user_secrets (
    owner text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (owner, key)
);

-- What pilots say of the machines that they run on; kind is 'node' or 'gpu', item tells GPUs of a node apart.
CREATE TABLE worker_nodes (
    site text NOT NULL,
    host_name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('node', 'gpu')),
    item text NOT NULL DEFAULT '',
    data jsonb NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (site, host_name, kind, item)
);
CREATE INDEX worker_nodes_old ON worker_nodes (seen_at);
