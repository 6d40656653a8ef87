-- Files of a dataset whose names differ in their last number only are attempts of one file: the newest one is input.
CREATE INDEX files_by_attempt ON catalogue.files (
    dataset_id, regexp_replace(lfn, '\.[0-9]+$', ''), coalesce(substring(lfn FROM '\.([0-9]+)$')::numeric, -1))
    WHERE lfn ~ '\.[0-9]+$';
ALTER TABLE dataset_readings ADD COLUMN n_older bigint CHECK (n_older >= 0);
ALTER TABLE task_datasets ADD COLUMN n_older bigint CHECK (n_older >= 0);
