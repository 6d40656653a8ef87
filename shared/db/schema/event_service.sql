-- The event service: job sets with their ranges of events, jumbo jobs, clones, and searches of points.

-- Ids of job sets.
CREATE SEQUENCE job_set_ids;

-- Files whose events several jobs process together, with counters of their ranges, which triggers keep.
CREATE TABLE job_sets (
    job_set_id bigint PRIMARY KEY DEFAULT nextval('job_set_ids'),   -- its id
    task_id bigint NOT NULL,                   -- the task
    chunk_id bigint NOT NULL,                  -- the chunk it was made of
    status text NOT NULL CHECK (status IN ('open', 'merging', 'finished', 'failed')),   -- where it stands
    wants text CHECK (wants IN ('consumer', 'merge')),   -- what is to be made for it next; NULL: nothing
    kind text NOT NULL CHECK (kind IN ('normal', 'scout')),   -- the kind of its jobs
    is_search boolean NOT NULL DEFAULT false,  -- its ranges are points of a search: jobs evaluate them, and none merges
    n_files int NOT NULL,                      -- files
    n_ranges int NOT NULL,                     -- ranges of theirs; 0: its jobs are clones
    n_consumers int NOT NULL,                  -- jobs that process events at the same time
    n_attempts int NOT NULL DEFAULT 1,         -- attempts that retries of its jobs have used
    n_merges int NOT NULL DEFAULT 0,           -- merge jobs so far
    n_ready int NOT NULL DEFAULT 0,            -- ranges that are ready and have attempts left
    n_exhausted int NOT NULL DEFAULT 0,        -- ranges that are ready and have none
    n_processing int NOT NULL DEFAULT 0,       -- ranges that are sent or running
    n_finished int NOT NULL DEFAULT 0,         -- ranges that are finished
    n_done int NOT NULL DEFAULT 0,             -- ranges that are done
    n_merged int NOT NULL DEFAULT 0,           -- ranges that are merged
    n_fatal int NOT NULL DEFAULT 0,            -- ranges that failed for good
    serials jsonb NOT NULL,                    -- the serial number of each output template
    queues jsonb NOT NULL,                     -- the ranked queues of its chunk
    retry_at timestamptz,                      -- until when it waits by itself, after its site took no job of it
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was made
    ended_at timestamptz,                      -- when it ended
    reason text                                -- why it ended so
);
CREATE INDEX job_sets_open ON job_sets (task_id, job_set_id) WHERE status IN ('open', 'merging');
CREATE INDEX job_sets_ended ON job_sets (task_id) WHERE status IN ('finished', 'failed');
-- What is told of a task: its ranges of events that failed for good. Few sets have any.
CREATE INDEX job_sets_fatal ON job_sets (task_id) WHERE n_fatal > 0;

-- The jobs of a set: those that process its events, and the one that merges; or copies of one job (useJobCloning), the
-- first of which that starts or stores counts.
CREATE TABLE job_set_jobs (
    job_id bigint PRIMARY KEY,                 -- the job
    job_set_id bigint NOT NULL REFERENCES job_sets,   -- its set
    task_id bigint NOT NULL,                   -- its task
    role text NOT NULL CHECK (role IN ('consumer', 'merge', 'clone')),   -- what it is for
    attempt int NOT NULL,                      -- the attempt of the set that it is
    n_processed int NOT NULL DEFAULT 0,        -- ranges that it processed
    sub_status text                            -- how it ended (JEDI: Final status of Event Service jobs)
);
CREATE INDEX job_set_jobs_set ON job_set_jobs (job_set_id);

-- Which copy of a cloned job has its outputs in the catalogue: decided before they are registered, once for its job
-- set.
CREATE TABLE stored_copies (
    job_set_id bigint PRIMARY KEY REFERENCES job_sets,   -- the set
    job_id bigint NOT NULL                     -- the copy
);

-- Jumbo jobs take events of all job sets of their task.
CREATE TABLE jumbo_jobs (
    job_id bigint PRIMARY KEY,                 -- the job
    task_id bigint NOT NULL,                   -- its task
    queue text NOT NULL,                       -- its queue
    site text NOT NULL,                        -- the queue's site
    n_processed int NOT NULL DEFAULT 0,        -- ranges that it processed
    ended_at timestamptz,                      -- when its end was counted
    was_closed boolean NOT NULL DEFAULT false  -- taken back before a pilot had it: no attempt in vain
);
CREATE INDEX jumbo_jobs_task ON jumbo_jobs (task_id, job_id);

-- Why live event-service tasks have jumbo jobs or not. A row leaves when its task is not looked at any more.
CREATE TABLE jumbo_reasons (
    task_id bigint PRIMARY KEY,                -- the task
    reason text NOT NULL,                      -- why, as it was last looked at
    looked_at timestamptz NOT NULL DEFAULT orrery_now(),   -- since when that is so
    switched text,                             -- what was switched last, or looked at again, and why; NULL: nothing yet
    switched_at timestamptz                    -- when
);

-- Ids of ranges of events.
CREATE SEQUENCE event_range_ids;

-- Ranges of events as pilots take and report them: one row for each first event and attempt of a file.
--
-- In partitions by the hash of their task (JEDI: the table of events is partitioned by task). Every statement about
-- ranges knows its task, so each works in one partition, whose indexes are a sixteenth of all. Sixteen: indexes of a
-- hundred million ranges then fit memory one by one, autovacuum has pieces that its few workers share, and a statement
-- that is for many tasks still opens few tables. Hashes of ids that follow each other differ: tasks that run at the
-- same time are spread.
CREATE TABLE event_ranges (
    event_range_id bigint NOT NULL DEFAULT nextval('event_range_ids'),   -- its id
    task_id bigint NOT NULL,                   -- the task
    dataset_id bigint NOT NULL,                -- the dataset of the file
    file_id bigint NOT NULL,                   -- the file; a trigger checks that there is one
    status smallint NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 10),   -- CODES of shared/states/event_range.py
    job_id bigint,                             -- the job that has or had it; NULL: nobody
    job_process_id bigint NOT NULL DEFAULT 0,  -- its number in the file
    def_min_event_id bigint NOT NULL,          -- the first event
    def_max_event_id bigint,                   -- the last event
    processed_up_to_event_id bigint,           -- the last event that was processed
    attempt_nr int NOT NULL DEFAULT 10 CHECK (attempt_nr >= 0),   -- attempts that are left, this one included
    obj_store_id int,                          -- the object store that has its output
    event_offset bigint,                       -- what the numbers of events are raised by for pilots
    is_jumbo boolean NOT NULL DEFAULT false,   -- whether a jumbo job has it
    zip_row_id bigint,                         -- the row of event_range_files that has its output
    file_not_deleted char(1),                  -- Y: its output is used up and can be deleted; N: it was deleted
    error_code int,                            -- the pilot's code
    path_convention int,                       -- how its output is placed in the object store
    error_diag varchar(500),                   -- the pilot's words
    job_set_id bigint,                         -- the job set that has it
    PRIMARY KEY (task_id, file_id, def_min_event_id, attempt_nr)
) PARTITION BY HASH (task_id);
DO $$
BEGIN
    FOR number IN 0..15 LOOP
        -- room in each page for the next versions of its rows
        EXECUTE format('CREATE TABLE %I PARTITION OF event_ranges FOR VALUES WITH (MODULUS 16, REMAINDER %s)'
                       ' WITH (fillfactor = 60)',
                       'event_ranges_' || lpad(number::text, 2, '0'), number);
    END LOOP;
END $$;
-- Ranges of a task by id, and all of a task. There is none by task and state: most updates are of ranges by id in a
-- state, and while statistics are older than the states, the planner would choose it and read every range of the task.
CREATE UNIQUE INDEX event_ranges_id ON event_ranges (task_id, event_range_id);
CREATE UNIQUE INDEX event_ranges_number ON event_ranges (file_id, job_process_id, attempt_nr, task_id);
-- No index is over the state: a report, which changes nothing else that is in an index, writes none (HOT). What nobody
-- has can be given out, except for what is cancelled or fatal.
CREATE INDEX event_ranges_ready ON event_ranges (file_id, job_process_id) WHERE job_id IS NULL AND attempt_nr > 0;
CREATE INDEX event_ranges_job ON event_ranges (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX event_ranges_set ON event_ranges (job_set_id) WHERE job_set_id IS NOT NULL;
-- Plans say which index of which partition they read.
DO $$
DECLARE index_of_partition record;
BEGIN
    FOR index_of_partition IN
        SELECT child.relname AS made, parent.relname || right(partition.relname, 3) AS wanted
          FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid JOIN pg_class parent ON parent.oid = inhparent
          JOIN pg_index x ON x.indexrelid = child.oid JOIN pg_class partition ON partition.oid = x.indrelid
          JOIN pg_index y ON y.indexrelid = parent.oid AND y.indrelid = 'event_ranges'::regclass
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', index_of_partition.made, index_of_partition.wanted);
    END LOOP;
END $$;

-- The counters of job sets follow their ranges in one statement: first so many ranges of a state, then their sets.
CREATE FUNCTION count_updated_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job_sets s SET
           n_ready = s.n_ready + d.n_ready, n_exhausted = s.n_exhausted + d.n_exhausted,
           n_processing = s.n_processing + d.n_processing, n_finished = s.n_finished + d.n_finished,
           n_done = s.n_done + d.n_done, n_merged = s.n_merged + d.n_merged, n_fatal = s.n_fatal + d.n_fatal
      FROM (SELECT c.job_set_id, coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND c.has_attempt), 0) AS n_ready,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND NOT c.has_attempt), 0) AS n_exhausted,
                   coalesce(sum(c.n) FILTER (WHERE c.status IN (1, 2)), 0) AS n_processing,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 3), 0) AS n_finished,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 6), 0) AS n_done,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 9), 0) AS n_merged,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 8), 0) AS n_fatal
              FROM (SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, count(*) AS n
                      FROM new_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3
                    UNION ALL SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, -count(*) AS n
                      FROM old_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3) c
             GROUP BY c.job_set_id) d
     WHERE s.job_set_id = d.job_set_id;
    RETURN NULL;
END $$;
CREATE TRIGGER event_ranges_counted AFTER UPDATE ON event_ranges
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_updated_ranges();

CREATE FUNCTION count_inserted_ranges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job_sets s SET
           n_ready = s.n_ready + d.n_ready, n_exhausted = s.n_exhausted + d.n_exhausted,
           n_processing = s.n_processing + d.n_processing, n_finished = s.n_finished + d.n_finished,
           n_done = s.n_done + d.n_done, n_merged = s.n_merged + d.n_merged, n_fatal = s.n_fatal + d.n_fatal
      FROM (SELECT c.job_set_id, coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND c.has_attempt), 0) AS n_ready,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 0 AND NOT c.has_attempt), 0) AS n_exhausted,
                   coalesce(sum(c.n) FILTER (WHERE c.status IN (1, 2)), 0) AS n_processing,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 3), 0) AS n_finished,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 6), 0) AS n_done,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 9), 0) AS n_merged,
                   coalesce(sum(c.n) FILTER (WHERE c.status = 8), 0) AS n_fatal
              FROM (SELECT job_set_id, status, attempt_nr > 0 AS has_attempt, count(*) AS n
                      FROM new_rows WHERE job_set_id IS NOT NULL GROUP BY 1, 2, 3) c
             GROUP BY c.job_set_id) d
     WHERE s.job_set_id = d.job_set_id;
    RETURN NULL;
END $$;
-- In place of foreign keys, which look for the task, the dataset and the file of each range: one look for each file of a
-- statement. Ranges of an archived task leave after it, in slices.
CREATE FUNCTION ranges_have_files() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE unknown bigint;
BEGIN
    SELECT n.file_id INTO unknown
      FROM (SELECT DISTINCT file_id, dataset_id, task_id FROM new_rows) n LEFT JOIN task_files f USING (file_id)
     WHERE (n.dataset_id, n.task_id) IS DISTINCT FROM (f.dataset_id, f.task_id) LIMIT 1;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'ranges of file % cannot be inserted: there is no such file of their task and dataset', unknown
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_ranges_have_files AFTER INSERT ON event_ranges
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION ranges_have_files();
CREATE TRIGGER event_ranges_inserted AFTER INSERT ON event_ranges
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_inserted_ranges();

-- Ranges of earlier sets of a file: the columns of event_ranges in their order.
CREATE TABLE event_ranges_past (
    LIKE event_ranges,
    moved_at timestamptz NOT NULL DEFAULT orrery_now()   -- when they came here
);
CREATE INDEX event_ranges_past_file ON event_ranges_past (file_id);
CREATE INDEX event_ranges_past_task ON event_ranges_past (task_id);

-- Ids of files that ranges were written to.
CREATE SEQUENCE event_range_file_ids;

-- What the events of ranges were written to.
CREATE TABLE event_range_files (
    zip_row_id bigint PRIMARY KEY DEFAULT nextval('event_range_file_ids'),   -- its id
    task_id bigint NOT NULL,                   -- the task
    job_id bigint NOT NULL,                    -- the job that wrote it
    kind text NOT NULL CHECK (kind IN ('zip', 'output')),   -- of several ranges, or an output of one range alone
    lfn varchar(1000) NOT NULL,                -- its name
    obj_store_id int,                          -- the object store that has it
    size_bytes bigint CHECK (size_bytes >= 0), -- its size
    adler32 varchar(8),                        -- its checksum
    n_events bigint CHECK (n_events >= 0),     -- events in it
    path_convention int,                       -- how it is placed in the object store
    reported_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    UNIQUE (job_id, lfn)
);
CREATE INDEX event_range_files_task ON event_range_files (task_id);

-- Reports of event ranges that were refused, one row for each task: most came after the end of their job.
CREATE TABLE refused_range_reports (
    task_id bigint PRIMARY KEY,                -- the task
    n_reports bigint NOT NULL,                 -- how many
    reason text NOT NULL,                      -- why the last one was
    last_at timestamptz NOT NULL DEFAULT orrery_now()   -- when
);

-- Hyper-parameter optimisation: the points of a task are event ranges of its one pseudo file, and its job set a search.
CREATE TABLE hpo_searches (
    file_id bigint PRIMARY KEY,                -- the pseudo file
    task_id bigint NOT NULL,                   -- the task
    dataset_id bigint NOT NULL,                -- the file's dataset
    job_set_id bigint NOT NULL REFERENCES job_sets,   -- the job set that works on it now
    most_points int NOT NULL,                  -- points that are evaluated at most
    points_per_generation int,                 -- points that are added at a time; NULL: an optimiser adds them
    min_unevaluated int NOT NULL DEFAULT 0,    -- points are added when fewer than this are not evaluated
    range_attempts int NOT NULL,               -- attempts of each point
    n_points int NOT NULL DEFAULT 0,           -- points of the job set so far
    next_point bigint NOT NULL DEFAULT 1,      -- the smallest number that the next point may have
    n_jobs int NOT NULL DEFAULT 0,             -- jobs so far, without those that were taken back before they ran
    is_over boolean NOT NULL DEFAULT false     -- whether no more points are added
);
CREATE UNIQUE INDEX hpo_searches_set ON hpo_searches (job_set_id);
CREATE INDEX hpo_searches_task ON hpo_searches (task_id);

-- Points that an optimiser added.
CREATE TABLE hpo_points (
    task_id bigint NOT NULL,                   -- the task
    point_id bigint NOT NULL CHECK (point_id >= 0),   -- the number that the optimiser has for it
    added_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when
    added_by text NOT NULL,                    -- by whom
    PRIMARY KEY (task_id, point_id)
);
