-- Of an input with an offset the first files are not read: how many of them a reading has passed.
ALTER TABLE dataset_readings ADD COLUMN n_skipped bigint NOT NULL DEFAULT 0 CHECK (n_skipped >= 0);
