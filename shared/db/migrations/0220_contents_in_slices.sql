-- Input is read in slices. What is being read of a task, and of each of its datasets how far; a task is taken by one
-- reader at a time, which holds the first row and never the task's own.
CREATE TABLE input_readings (
    task_id bigint PRIMARY KEY REFERENCES tasks,
    began_at timestamptz NOT NULL DEFAULT orrery_now(),
    slice_at timestamptz NOT NULL DEFAULT orrery_now(),  -- who waited longest is next
    is_read boolean NOT NULL DEFAULT false               -- all datasets are; the task can go on
);
CREATE INDEX input_readings_next ON input_readings (slice_at);

CREATE TABLE dataset_readings (
    dataset_id bigint PRIMARY KEY REFERENCES task_datasets,
    task_id bigint NOT NULL REFERENCES input_readings ON DELETE CASCADE,
    position int NOT NULL,                               -- masters first, in the order in which limits count
    stage text NOT NULL CHECK (stage IN ('compare', 'load', 'read')),
    request jsonb NOT NULL,                              -- which files are wanted, and how they become units
    after_lfn text NOT NULL DEFAULT '',                  -- how far it was compared
    has_new boolean NOT NULL DEFAULT false,              -- the catalogue has files that the task has not
    after_block bigint,                                  -- how far it was loaded
    after_file bigint NOT NULL DEFAULT 0,
    contents_version bigint,                             -- of the catalogue, when the reading began
    n_units bigint NOT NULL DEFAULT 0,                   -- what was added
    n_files bigint NOT NULL DEFAULT 0,
    n_events bigint,
    n_changed bigint NOT NULL DEFAULT 0                  -- units that changed their state
);
CREATE INDEX dataset_readings_next ON dataset_readings (task_id, position) WHERE stage <> 'read';

-- The version of a dataset's contents in the catalogue: what did not change since it was read need not be compared.
ALTER TABLE catalogue.datasets ADD COLUMN contents_version bigint NOT NULL DEFAULT 1;
ALTER TABLE catalogue.files ADD COLUMN is_corrupted boolean NOT NULL DEFAULT false;
CREATE INDEX files_in_order ON catalogue.files (dataset_id, file_id);
CREATE INDEX files_by_block ON catalogue.files (dataset_id, lumi_block, file_id) WHERE lumi_block IS NOT NULL;
ALTER TABLE task_datasets ADD COLUMN contents_version bigint;

CREATE FUNCTION catalogue.note_contents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE catalogue.datasets SET contents_version = contents_version + 1
     WHERE dataset_id IN (SELECT dataset_id FROM changed);
    RETURN NULL;
END $$;
CREATE TRIGGER files_added AFTER INSERT ON catalogue.files REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER files_changed AFTER UPDATE ON catalogue.files REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER files_removed AFTER DELETE ON catalogue.files REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_added AFTER INSERT ON catalogue.dataset_replicas REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_changed AFTER UPDATE ON catalogue.dataset_replicas REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();
CREATE TRIGGER copies_removed AFTER DELETE ON catalogue.dataset_replicas REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION catalogue.note_contents();

-- Open input that is looked at again while STATECHECKEXPIRATION is not over.
CREATE INDEX task_datasets_open ON task_datasets (dataset_id)
    WHERE state_check_expiration IS NOT NULL AND state = 'open';

INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES
    ('dataset', 'toupdate', 'pending'), ('file', '', 'broken'), ('file', 'missing', 'lost'), ('file', 'pending', 'lost'), ('file', 'staging', 'lost'),
    ('file', 'missing', 'broken'), ('file', 'pending', 'broken'), ('file', 'staging', 'broken'),
    ('file', 'lost', 'missing'), ('file', 'pending', 'missing'), ('file', 'staging', 'missing')
ON CONFLICT DO NOTHING;
