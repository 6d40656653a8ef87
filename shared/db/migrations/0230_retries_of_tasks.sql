-- How often a task was retried: what the limits of retries are compared with.
ALTER TABLE tasks ADD COLUMN attempt_nr int NOT NULL DEFAULT 0;
