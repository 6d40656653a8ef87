-- Copies that were brought for the jobs of one task, of input that is not used many times: they go when it has ended, or
-- when their time is over. The copies themselves are in file_replicas; of a copy without a row here nothing is deleted.
CREATE TABLE catalogue.brought_copies (
    file_id bigint NOT NULL,
    storage text NOT NULL,
    task_id bigint NOT NULL,
    request_id bigint,                        -- of the rule in a catalogue outside that brought them
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (file_id, storage)
);
CREATE INDEX brought_copies_of_task ON catalogue.brought_copies (task_id, file_id);
CREATE INDEX brought_copies_expire ON catalogue.brought_copies (expires_at);
CREATE INDEX brought_copies_of_request ON catalogue.brought_copies (request_id) WHERE request_id IS NOT NULL;

-- Datasets that nobody needs any more, and until when they are kept.
ALTER TABLE catalogue.datasets ADD COLUMN expires_at timestamptz;
CREATE INDEX datasets_expire ON catalogue.datasets (expires_at) WHERE expires_at IS NOT NULL;

ALTER TABLE catalogue_requests DROP CONSTRAINT catalogue_requests_kind_check;
ALTER TABLE catalogue_requests ADD CONSTRAINT catalogue_requests_kind_check CHECK (kind IN
    ('read', 'create', 'add_files', 'remove_files', 'close', 'reopen', 'keep', 'move', 'expire', 'release'));
