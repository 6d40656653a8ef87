-- Outputs of a job may be kept at several places: the datasets whose files a transfer moves (NULL: all of its job).
ALTER TABLE transfers ADD COLUMN dataset_ids bigint[];
