-- A unit that a job has stays what it is although the catalogue lost it: it is compared again when the job has ended.
ALTER TABLE dataset_readings ADD COLUMN has_owned boolean NOT NULL DEFAULT false;
