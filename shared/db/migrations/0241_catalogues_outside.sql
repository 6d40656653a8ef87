-- What is wanted of catalogues outside: written with the change that wants it, carried out and tried again by workers.
CREATE TABLE catalogue_requests (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vo text NOT NULL,
    task_id bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('read', 'create', 'add_files', 'remove_files', 'close', 'reopen', 'keep', 'move')),
    subject text NOT NULL,                    -- a dataset, a storage, or what the request is about
    details jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'moving', 'done', 'failed')),
    attempts int NOT NULL DEFAULT 0,
    claim bigint NOT NULL DEFAULT 0,          -- raised by each worker that takes it: a slow one changes nothing any more
    next_at timestamptz NOT NULL DEFAULT orrery_now(),
    rule_id text,
    reason text,                              -- why it is not done
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    done_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX catalogue_requests_due ON catalogue_requests (next_at) WHERE status IN ('open', 'moving');
CREATE INDEX catalogue_requests_of_task ON catalogue_requests (task_id, request_id) WHERE status IN ('open', 'moving');
CREATE UNIQUE INDEX catalogue_requests_once ON catalogue_requests (task_id, kind, subject)
    WHERE status = 'open' AND kind IN ('read', 'keep');
CREATE INDEX catalogue_requests_read ON catalogue_requests (vo, subject, done_at) WHERE kind = 'read';
CREATE INDEX catalogue_requests_rule ON catalogue_requests (rule_id) WHERE status = 'moving';
CREATE INDEX catalogue_requests_ended ON catalogue_requests (done_at) WHERE status IN ('done', 'failed');

ALTER TABLE transfers ADD COLUMN request_id bigint;
CREATE INDEX transfers_of_request ON transfers (request_id) WHERE request_id IS NOT NULL;

-- The VO whose catalogue outside a dataset was read from, or is registered in; null: it is in the built-in one alone.
ALTER TABLE catalogue.datasets ADD COLUMN vo text;
-- Names of a dataset that is read once more because files of it are gone.
CREATE UNLOGGED TABLE catalogue.seen_files (
    request_id bigint NOT NULL,
    lfn text NOT NULL,
    PRIMARY KEY (request_id, lfn)
);
