-- Ranges of events as pilots take and report them: a range of a file has one row for each of its attempts.
ALTER TABLE event_ranges
    ADD COLUMN error_diag varchar(500);

DROP INDEX event_ranges_file;
CREATE UNIQUE INDEX event_ranges_number ON event_ranges (file_id, job_process_id, attempt_nr);
CREATE UNIQUE INDEX event_ranges_events ON event_ranges (file_id, def_min_event_id, attempt_nr);
-- what can be given to a pilot, in the order in which it is
CREATE INDEX event_ranges_ready ON event_ranges (file_id, job_process_id) WHERE status = 0 AND attempt_nr > 0;

-- What the events of ranges were written to: zip files of the event service, and outputs that each range has alone.
CREATE SEQUENCE event_range_file_ids;
CREATE TABLE event_range_files (
    zip_row_id bigint PRIMARY KEY DEFAULT nextval('event_range_file_ids'),
    task_id bigint NOT NULL,
    job_id bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('zip', 'output')),
    lfn varchar(1000) NOT NULL,
    obj_store_id int,
    size_bytes bigint CHECK (size_bytes >= 0),
    adler32 varchar(8),
    n_events bigint CHECK (n_events >= 0),
    path_convention int,
    reported_at timestamptz NOT NULL DEFAULT orrery_now(),
    UNIQUE (job_id, lfn)
);
CREATE INDEX event_range_files_task ON event_range_files (task_id);
