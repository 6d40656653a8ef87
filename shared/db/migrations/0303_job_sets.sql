-- Job sets of the event service: files whose events several jobs process together, with counters of their ranges.
CREATE SEQUENCE job_set_ids;
CREATE TABLE job_sets (
    job_set_id bigint PRIMARY KEY DEFAULT nextval('job_set_ids'),
    task_id bigint NOT NULL REFERENCES tasks,
    chunk_id bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'merging', 'finished', 'failed')),
    -- what is to be made for it next
    wants text CHECK (wants IN ('consumer', 'merge')),
    kind text NOT NULL CHECK (kind IN ('normal', 'scout')),
    n_files int NOT NULL,
    n_ranges int NOT NULL,
    n_consumers int NOT NULL,
    -- attempts that retries of its jobs have used
    n_attempts int NOT NULL DEFAULT 1,
    n_merges int NOT NULL DEFAULT 0,
    -- ranges by state: ready with attempts, ready without, sent or running, finished, done, merged, fatal
    n_ready int NOT NULL DEFAULT 0,
    n_exhausted int NOT NULL DEFAULT 0,
    n_processing int NOT NULL DEFAULT 0,
    n_finished int NOT NULL DEFAULT 0,
    n_done int NOT NULL DEFAULT 0,
    n_merged int NOT NULL DEFAULT 0,
    n_fatal int NOT NULL DEFAULT 0,
    -- the serial number of each output template, and the ranked queues of its chunk
    serials jsonb NOT NULL,
    queues jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT orrery_now(),
    ended_at timestamptz,
    reason text
);
CREATE INDEX job_sets_open ON job_sets (task_id) WHERE status IN ('open', 'merging');

-- The jobs of a set: those that process its events, and the one that merges.
CREATE TABLE job_set_jobs (
    job_id bigint PRIMARY KEY,
    job_set_id bigint NOT NULL REFERENCES job_sets,
    task_id bigint NOT NULL,
    role text NOT NULL CHECK (role IN ('consumer', 'merge')),
    attempt int NOT NULL,
    n_processed int NOT NULL DEFAULT 0,
    -- how it ended (JEDI: Final status of Event Service jobs)
    sub_status text
);
CREATE INDEX job_set_jobs_set ON job_set_jobs (job_set_id);

ALTER TABLE event_ranges ADD COLUMN job_set_id bigint;
-- ranges of earlier sets of a file
CREATE TABLE event_ranges_past (LIKE event_ranges, moved_at timestamptz NOT NULL DEFAULT orrery_now());
CREATE INDEX event_ranges_past_file ON event_ranges_past (file_id);

CREATE FUNCTION count_ranges_of_sets(changes jsonb) RETURNS void LANGUAGE sql AS $$
    UPDATE job_sets s SET
           n_ready = s.n_ready + c.n_ready, n_exhausted = s.n_exhausted + c.n_exhausted,
           n_processing = s.n_processing + c.n_processing, n_finished = s.n_finished + c.n_finished,
           n_done = s.n_done + c.n_done, n_merged = s.n_merged + c.n_merged, n_fatal = s.n_fatal + c.n_fatal
      FROM jsonb_to_recordset(changes) AS c (job_set_id bigint, n_ready int, n_exhausted int, n_processing int,
                                             n_finished int, n_done int, n_merged int, n_fatal int)
     WHERE s.job_set_id = c.job_set_id
$$;
-- Every statement that moves ranges moves the counters of their sets with them.
CREATE FUNCTION count_updated_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changes jsonb;
BEGIN
    SELECT jsonb_agg(to_jsonb(d)) INTO changes FROM (
        SELECT job_set_id, sum(n * (status = 0 AND attempt_nr > 0)::int) AS n_ready,
               sum(n * (status = 0 AND attempt_nr = 0)::int) AS n_exhausted,
               sum(n * (status IN (1, 2))::int) AS n_processing, sum(n * (status = 3)::int) AS n_finished,
               sum(n * (status = 6)::int) AS n_done, sum(n * (status = 9)::int) AS n_merged,
               sum(n * (status = 8)::int) AS n_fatal
          FROM (SELECT job_set_id, status, attempt_nr, 1 AS n FROM new_rows WHERE job_set_id IS NOT NULL
                UNION ALL SELECT job_set_id, status, attempt_nr, -1 FROM old_rows WHERE job_set_id IS NOT NULL) both_rows
         GROUP BY job_set_id) d;
    IF changes IS NOT NULL THEN
        PERFORM count_ranges_of_sets(changes);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_ranges_counted AFTER UPDATE ON event_ranges
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_updated_ranges();

CREATE FUNCTION count_inserted_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changes jsonb;
BEGIN
    SELECT jsonb_agg(to_jsonb(d)) INTO changes FROM (
        SELECT job_set_id, sum((status = 0 AND attempt_nr > 0)::int) AS n_ready,
               sum((status = 0 AND attempt_nr = 0)::int) AS n_exhausted, sum((status IN (1, 2))::int) AS n_processing,
               sum((status = 3)::int) AS n_finished, sum((status = 6)::int) AS n_done,
               sum((status = 9)::int) AS n_merged, sum((status = 8)::int) AS n_fatal
          FROM new_rows WHERE job_set_id IS NOT NULL GROUP BY job_set_id) d;
    IF changes IS NOT NULL THEN
        PERFORM count_ranges_of_sets(changes);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_ranges_inserted AFTER INSERT ON event_ranges
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_inserted_ranges();

INSERT INTO allowed_transitions (entity, from_status, to_status) VALUES ('job', 'merging', 'failed');
CREATE INDEX event_ranges_set ON event_ranges (job_set_id) WHERE job_set_id IS NOT NULL;
CREATE INDEX task_files_set ON task_files (jobset_id) WHERE jobset_id IS NOT NULL;
