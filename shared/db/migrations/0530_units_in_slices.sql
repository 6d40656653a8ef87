-- Units of tasks without input are numbered in slices, like those of input that is read. `too_many`: why a dataset makes
-- more units than its task may have.
ALTER TABLE dataset_readings DROP CONSTRAINT dataset_readings_stage_check;
ALTER TABLE dataset_readings ADD CONSTRAINT dataset_readings_stage_check
    CHECK (stage IN ('number', 'compare', 'load', 'read'));
ALTER TABLE dataset_readings ADD COLUMN too_many text;
