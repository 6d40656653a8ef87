-- Files of a dataset whose names differ in their last number only are attempts of one file: the newest one is input.
CREATE TABLE catalogue.older_files (          -- files of which their dataset has a newer attempt
    file_id bigint PRIMARY KEY REFERENCES catalogue.files ON DELETE CASCADE,
    dataset_id bigint NOT NULL REFERENCES catalogue.datasets ON DELETE CASCADE
);
CREATE INDEX older_files_dataset ON catalogue.older_files (dataset_id);
-- the contents whose older attempts are known
ALTER TABLE catalogue.datasets ADD COLUMN attempts_version bigint;
ALTER TABLE dataset_readings ADD COLUMN n_older bigint CHECK (n_older >= 0);
ALTER TABLE task_datasets ADD COLUMN n_older bigint CHECK (n_older >= 0);
