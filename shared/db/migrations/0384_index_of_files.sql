-- Input whose files belong together by their index: how many files of a dataset other such input does not have.
ALTER TABLE task_datasets ADD COLUMN n_off_index bigint CHECK (n_off_index >= 0);
