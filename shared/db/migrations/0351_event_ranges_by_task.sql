-- Event ranges in partitions by the hash of their task, one row for each first event and attempt of a file (JEDI: the
-- table of events is partitioned by task).
--
-- Every statement about ranges knows its task, so each works in one partition, whose indexes are a sixteenth of all.
-- Sixteen: indexes of a hundred million ranges then fit memory one by one, autovacuum has pieces that its few workers
-- share, and a statement that is for many tasks still opens few tables. Hashes of ids that follow each other differ:
-- tasks that run at the same time are spread.
--
-- The rows move in this transaction. Ranges without a first event were never made; if there is one, it stops here.
ALTER TABLE event_ranges RENAME TO event_ranges_unpartitioned;
CREATE TABLE event_ranges (LIKE event_ranges_unpartitioned INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS)
    PARTITION BY HASH (task_id);
DO $$
BEGIN
    FOR number IN 0..15 LOOP
        -- room in each page for the next versions of its rows
        EXECUTE format('CREATE TABLE %I PARTITION OF event_ranges FOR VALUES WITH (MODULUS 16, REMAINDER %s)'
                       ' WITH (fillfactor = 60)',
                       'event_ranges_' || lpad(number::text, 2, '0'), number);
    END LOOP;
END $$;
INSERT INTO event_ranges SELECT * FROM event_ranges_unpartitioned;
DROP TABLE event_ranges_unpartitioned;

ALTER TABLE event_ranges
    ADD PRIMARY KEY (task_id, file_id, def_min_event_id, attempt_nr),
    ADD FOREIGN KEY (task_id) REFERENCES tasks,
    ADD FOREIGN KEY (dataset_id) REFERENCES task_datasets,
    ADD FOREIGN KEY (file_id) REFERENCES task_files;
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

CREATE TRIGGER event_ranges_counted AFTER UPDATE ON event_ranges
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_updated_ranges();
CREATE TRIGGER event_ranges_inserted AFTER INSERT ON event_ranges
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_inserted_ranges();
