-- Datasets and files of tasks: what is worked on and what is made, how input is read, and where outputs go.

-- Ids of datasets of tasks.
CREATE SEQUENCE dataset_ids;

-- A dataset that a task reads or writes. Counters of input count units; a dataset of two tasks has two rows.
CREATE TABLE task_datasets (
    dataset_id bigint PRIMARY KEY DEFAULT nextval('dataset_ids'),   -- its id
    task_id bigint NOT NULL REFERENCES tasks,  -- its task
    dataset_name varchar(255) NOT NULL,        -- its name in the catalogue
    scope varchar(30),                         -- the scope the name was given with; NULL: the name decides
    container_name varchar(132),               -- the container that it belongs to
    type varchar(20) NOT NULL CHECK (type IN ('input', 'pseudo_input', 'pp_input', 'random_seed', 'lib', 'output', 'log',
        'tmpl_output', 'tmpl_log', 'trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log', 'tmpl_pp_log',
        'trn_unknown', 'in_constituent')),     -- what it is for
    stream_name varchar(20),                   -- the placeholder of its files: IN, OUTPUT0, LOG0, RNDMSEED, ...
    master_id bigint,                          -- the first master, of secondary input; NULL: this is a master
    provenance_id bigint,                      -- the input that outputs are made from
    template_id bigint,                        -- the final dataset that unmerged output goes to, or the template that the dataset of a site was made from
    attributes jsonb NOT NULL DEFAULT '{}',    -- nosplit, repeat, ratio, offset, ... as the task says
    vo varchar(16),                            -- VO

    -- Where it stands
    status varchar(20) NOT NULL,               -- state of shared/states/dataset.py
    state varchar(20),                         -- as the catalogue has it: open or frozen
    state_check_time timestamptz,              -- when the catalogue was last asked
    state_check_expiration timestamptz,        -- until when it is asked; NULL: not any more
    creation_time timestamptz NOT NULL DEFAULT orrery_now(),       -- when it became part of the task
    modification_time timestamptz NOT NULL DEFAULT orrery_now(),   -- of the row's last change
    frozen_time timestamptz,                   -- when it reached its end
    locked_by varchar(40), locked_time timestamptz,   -- kept from the specification; compare-and-set does their work

    -- How many files
    n_files bigint NOT NULL DEFAULT 0,              -- in all
    n_files_to_be_used bigint NOT NULL DEFAULT 0,   -- opened for use: scouts see only the first few
    n_files_used bigint NOT NULL DEFAULT 0,         -- input: picked, running, finished or failed
    n_files_finished bigint NOT NULL DEFAULT 0,     -- finished
    n_files_failed bigint NOT NULL DEFAULT 0,       -- failed for good
    n_files_on_hold bigint NOT NULL DEFAULT 0,      -- unmerged outputs waiting to be merged
    n_files_waiting bigint NOT NULL DEFAULT 0,      -- units whose job sets wait for co-jumbo jobs
    n_events bigint,                                -- in all; NULL: not known
    n_events_to_be_used bigint,                     -- of the files counted in n_files_to_be_used
    n_events_used bigint,                           -- of the files counted in n_files_used

    -- Reading it
    contents_version bigint,                        -- of the catalogue's contents when it was last read
    n_older bigint CHECK (n_older >= 0),            -- files left out, as there is a newer attempt of them
    n_off_index bigint CHECK (n_off_index >= 0),    -- files whose index other such input does not have
    n_not_made bigint CHECK (n_not_made >= 0),      -- files that the parent has not finished

    -- Where outputs go
    storage_token varchar(100),                -- the storage that the task names, or a kind of it
    destination varchar(60),                   -- the site or storage that was chosen
    site varchar(60),                          -- the site where it is used
    cloud varchar(10)                          -- the cloud where it is used
) WITH (fillfactor = 70);
CREATE INDEX task_datasets_task ON task_datasets (task_id, type);
CREATE INDEX task_datasets_name ON task_datasets (dataset_name, type);
CREATE INDEX task_datasets_container ON task_datasets (container_name, type) WHERE container_name IS NOT NULL;
CREATE INDEX task_datasets_check ON task_datasets (state_check_time) WHERE state_check_expiration IS NOT NULL;
-- Open input is looked at in turn: what waited longest first.
CREATE INDEX task_datasets_open ON task_datasets (state_check_time)
    WHERE state_check_expiration IS NOT NULL AND state = 'open';
CREATE INDEX task_datasets_locked ON task_datasets (locked_time) WHERE locked_by IS NOT NULL;

CREATE TRIGGER task_datasets_transitions AFTER UPDATE ON task_datasets
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_datasets();
CREATE TRIGGER task_datasets_inserted AFTER INSERT ON task_datasets
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('dataset');

-- Ids of files of tasks.
CREATE SEQUENCE file_ids;

-- A unit of input (a file, or a range of its events), or a file that a job makes. There are no more indexes than
-- needed: every step of a file writes to each of them. Files of a task are those of its datasets.
CREATE TABLE task_files (
    file_id bigint PRIMARY KEY DEFAULT nextval('file_ids'),   -- its id
    dataset_id bigint NOT NULL,                -- its dataset; a trigger checks that there is one
    task_id bigint NOT NULL,                   -- its task
    creation_date timestamptz NOT NULL DEFAULT orrery_now(),   -- when the row was made
    last_attempt_time timestamptz,             -- when a job last began with it
    lfn varchar(256) NOT NULL,                 -- its name
    guid varchar(64),                          -- its GUID
    type varchar(20) NOT NULL,                 -- the dataset's type
    fsize bigint CHECK (fsize >= 0),           -- bytes of the whole file
    checksum varchar(36),                      -- adler32 or MD5, with the prefix of the field
    scope varchar(30),                         -- its scope in the catalogue
    status varchar(64) NOT NULL CHECK (status IN ('ready', 'pending', 'staging', 'missing', 'lost', 'broken', 'picked',
        'running', 'finished', 'failed', 'defined', 'prepared', 'merging', 'cancelled', 'nooutput')),   -- its state
    attempt_nr int NOT NULL DEFAULT 0,         -- jobs that worked on it
    max_attempt int,                           -- how many may; NULL: outputs
    n_events bigint,                           -- events of the unit
    keep_track boolean NOT NULL DEFAULT true,  -- kept from the specification; drives nothing
    start_event bigint, end_event bigint,      -- the events of the unit, from 0, both inclusive; NULL: the whole file
    first_event bigint,                        -- the running number of the unit's first event in its task
    boundary_id bigint,                        -- the group that one job takes together
    job_id bigint,                             -- the job that uses it
    failed_attempt int NOT NULL DEFAULT 0,     -- attempts that failed through the work itself
    lumi_block_nr bigint,                      -- its luminosity block
    out_job_id bigint,                         -- the job that produced it
    max_failure int,                           -- how large `failed_attempt` may get; NULL: max_attempt alone counts
    is_waiting boolean NOT NULL DEFAULT false, -- its job set waits for a co-jumbo job
    jobset_id bigint,                          -- the job set that works on its events
    proc_status varchar(64),                   -- kept from the specification; drives nothing
    chunk_id bigint,                           -- the chunk that picked it
    ram_count bigint,                          -- MB, raised after a job ran out of memory
    avoided_site text,                         -- where it failed or waited in vain: not tried there while there is another
    CHECK (max_attempt IS NULL OR attempt_nr <= max_attempt)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX task_files_unit ON task_files (dataset_id, lfn, coalesce(start_event, -1));
CREATE INDEX task_files_state ON task_files (dataset_id, status, file_id);
CREATE INDEX task_files_job ON task_files (job_id) WHERE job_id IS NOT NULL AND status = 'running';
CREATE INDEX task_files_chunk ON task_files (chunk_id) WHERE status = 'picked';
CREATE INDEX task_files_producer ON task_files (out_job_id) WHERE out_job_id IS NOT NULL;
CREATE INDEX task_files_set ON task_files (jobset_id) WHERE jobset_id IS NOT NULL;
-- Files are looked for by name once they are finished: what made a file, and what has read it. An index of those alone
-- costs nothing while files are made, picked and worked on.
CREATE INDEX task_files_finished ON task_files (lfn) WHERE status = 'finished' AND type IN ('input', 'output');
-- Which files of a task were tried before: few, where a task may have ten million.
CREATE INDEX task_files_tried ON task_files (dataset_id, attempt_nr)
    WHERE attempt_nr > 0 AND status IN ('ready', 'picked', 'running');
CREATE INDEX task_files_raised ON task_files (dataset_id, ram_count, file_id)
    WHERE ram_count IS NOT NULL AND status = 'ready';
-- Unmerged outputs that wait to be merged.
CREATE INDEX task_files_on_hold ON task_files (task_id, dataset_id) WHERE status = 'ready' AND boundary_id IS NOT NULL
    AND type IN ('trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log');

-- In place of a foreign key, which looks into task_datasets for each file: a third of what new files cost. Files come
-- in batches of a few datasets: one look for each dataset of a statement keeps the same promise. Files never change
-- their dataset; datasets leave with their task when it is archived, and its files after it, in slices.
CREATE FUNCTION files_have_datasets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE unknown bigint;
BEGIN
    SELECT n.dataset_id INTO unknown FROM (SELECT DISTINCT dataset_id FROM new_rows) n
     WHERE NOT EXISTS (SELECT FROM task_datasets d WHERE d.dataset_id = n.dataset_id) LIMIT 1;
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'files of dataset % cannot be inserted: there is no such dataset', unknown
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER task_files_have_datasets AFTER INSERT ON task_files
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION files_have_datasets();

-- How outputs of a task are named.
CREATE TABLE output_templates (
    out_temp_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL REFERENCES tasks,              -- the task
    dataset_id bigint NOT NULL REFERENCES task_datasets,   -- the dataset the files go to
    file_name_template varchar(256) NOT NULL,  -- the name, with ${SN} or ${SN/P} for the number; or an expression: regex|...
    source_name varchar(256),                  -- kept from the specification; drives nothing
    serial_nr bigint NOT NULL DEFAULT 1,       -- the next number to give
    max_serial_nr bigint,                      -- kept from the specification; drives nothing
    stream_name varchar(20),                   -- the placeholder: OUTPUT0, LOG0, ...
    out_type varchar(20)                       -- the dataset's type
);
CREATE INDEX output_templates_task ON output_templates (task_id);
CREATE INDEX output_templates_dataset ON output_templates (dataset_id);

-- How much of a task's input is processed, in per mille: by events where those of every master input are known, else by
-- files. The one count for goals, for conditions of termination and for final statuses.
CREATE FUNCTION orrery_completeness(
    of_task bigint, OUT n_files bigint, OUT n_files_finished bigint, OUT files_permille double precision,
    OUT permille double precision
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    n_events bigint;
    n_events_finished bigint;
BEGIN
    SELECT coalesce(sum(d.n_files), 0), coalesce(sum(d.n_files_finished), 0),
           CASE WHEN bool_and(d.n_events IS NOT NULL) THEN sum(d.n_events) END
      INTO n_files, n_files_finished, n_events
      FROM task_datasets d
     WHERE d.task_id = of_task AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL;
    files_permille := CASE WHEN n_files > 0 THEN 1000.0 * n_files_finished / n_files ELSE 1000 END;
    permille := files_permille;
    IF n_events > 0 AND n_files_finished > 0 AND n_files_finished < n_files THEN
        SELECT coalesce(sum(f.n_events), 0) INTO n_events_finished
          FROM task_datasets d JOIN task_files f USING (dataset_id)
         WHERE d.task_id = of_task AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
           AND f.status = 'finished';
        permille := 1000.0 * n_events_finished / n_events;
    END IF;
END $$;

-- Input is read in slices. What is being read of a task; a task is taken by one reader at a time, which holds the row
-- here and never the task's own.
CREATE TABLE input_readings (
    task_id bigint PRIMARY KEY REFERENCES tasks,   -- the task
    began_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it began
    slice_at timestamptz NOT NULL DEFAULT orrery_now(),   -- of the last slice: who waited longest is next
    is_read boolean NOT NULL DEFAULT false     -- all datasets are; the task can go on
);
CREATE INDEX input_readings_next ON input_readings (slice_at);

-- How far each of its datasets is read. Units of tasks without input are numbered in slices, too.
CREATE TABLE dataset_readings (
    dataset_id bigint PRIMARY KEY REFERENCES task_datasets,   -- the dataset
    task_id bigint NOT NULL REFERENCES input_readings ON DELETE CASCADE,   -- its task
    position int NOT NULL,                     -- masters first, in the order in which limits count
    stage text NOT NULL CHECK (stage IN ('number', 'compare', 'load', 'read')),   -- what is done with it; read: over
    request jsonb NOT NULL,                    -- which files are wanted, and how they become units
    after_lfn text NOT NULL DEFAULT '',        -- how far it was compared
    has_new boolean NOT NULL DEFAULT false,    -- the catalogue has files that the task has not
    has_owned boolean NOT NULL DEFAULT false,  -- the catalogue lost units that jobs have: compared again at their end
    after_block bigint, after_file bigint NOT NULL DEFAULT 0,   -- how far it was loaded
    contents_version bigint,                   -- of the catalogue, when the reading began
    n_units bigint NOT NULL DEFAULT 0,         -- units that were added
    n_files bigint NOT NULL DEFAULT 0,         -- files of theirs
    n_events bigint,                           -- events of theirs; NULL: not known
    n_changed bigint NOT NULL DEFAULT 0,       -- units that changed their state
    n_older bigint CHECK (n_older >= 0),       -- files left out, as there is a newer attempt of them
    n_not_made bigint CHECK (n_not_made >= 0), -- files left out, as the parent has not finished them
    n_skipped bigint NOT NULL DEFAULT 0 CHECK (n_skipped >= 0),   -- files passed of those before the offset
    too_many text                              -- why it makes more units than the task may have
);
CREATE INDEX dataset_readings_next ON dataset_readings (task_id, position) WHERE stage <> 'read';
