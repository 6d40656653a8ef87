-- Input of which only files count that the parent has finished: how many of a dataset it has not.
ALTER TABLE dataset_readings ADD COLUMN n_not_made bigint CHECK (n_not_made >= 0);
ALTER TABLE task_datasets ADD COLUMN n_not_made bigint CHECK (n_not_made >= 0);
