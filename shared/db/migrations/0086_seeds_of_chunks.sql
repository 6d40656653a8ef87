-- What decided the draws when a chunk became jobs: its queues, and the files of secondary datasets that are taken at
-- random. The same seed makes the same jobs of the same input. NULL: an older one, or not used yet.
ALTER TABLE chunks ADD COLUMN seed bigint;
