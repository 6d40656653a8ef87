-- Jobs that have ended and whose results are counted. The archive has a partition for each day, which goes as a whole.
-- Which days have a job is known by the range of ids that each day archived, which days have jobs of a task is noted;
-- reads by id or task open the partitions of these days only.

-- Archived jobs: the columns of `jobs`.
CREATE TABLE jobs_archive (
    job_id bigint NOT NULL,                    -- its id
    task_id bigint NOT NULL,                   -- its task
    chunk_id bigint NOT NULL,                  -- the chunk it was made of
    shape_id int NOT NULL,                     -- what it required of a pilot
    current_priority int NOT NULL,             -- priority in its lane
    core_count smallint NOT NULL,              -- cores
    attempt_number smallint NOT NULL,          -- the attempt of its files that it was
    status text NOT NULL,                      -- finished, failed, closed or cancelled
    queue text,                                -- its queue; NULL: it stood for a job set that no queue took
    resource_type text NOT NULL,               -- SCORE, MCORE, ...
    gshare text NOT NULL,                      -- its share
    user_name text NOT NULL,                   -- the owner of its task
    prod_source_label text NOT NULL,           -- label
    job_type text NOT NULL,                    -- kind
    creation_time timestamptz NOT NULL,        -- when it was made
    state_change_time timestamptz NOT NULL,    -- of the last change of state
    start_time timestamptz,                    -- when it began to run
    end_time timestamptz,                      -- when it ended
    heartbeat_at timestamptz,                  -- of the pilot's last report
    results_applied_at timestamptz,            -- when its files were counted
    worker text,                               -- the pilot that had it
    command text,                              -- what the pilot was to be told
    error_source text,                         -- pilot, payload, brokerage, dispatch, watchdog, catalogue, user
    error_code int,                            -- the code that the source has for it
    error_dialog text,                         -- what went wrong, for people
    archived_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it came here
    work_queue_id int,                         -- the work queue of its task
    PRIMARY KEY (job_id, archived_at)
) PARTITION BY RANGE (archived_at);
CREATE TABLE jobs_archive_default PARTITION OF jobs_archive DEFAULT;
-- How many archived jobs of tasks are in which state, and their ids in order: from the index alone.
CREATE INDEX jobs_archive_task ON jobs_archive (task_id, status, job_id) INCLUDE (archived_at);
CREATE INDEX jobs_archive_job ON jobs_archive (job_id);

-- The range of ids that each day archived.
CREATE TABLE archive_days (
    day date PRIMARY KEY,                      -- in UTC, as the partitions
    first_job_id bigint NOT NULL,              -- the smallest id
    last_job_id bigint NOT NULL                -- the largest id
);

-- The days that had jobs of a task, those that were dropped too.
CREATE TABLE archive_days_of_tasks (
    task_id bigint NOT NULL,                   -- the task
    day date NOT NULL,                         -- in UTC, as the partitions
    PRIMARY KEY (task_id, day)
);
CREATE INDEX archive_days_of_tasks_day ON archive_days_of_tasks (day);

-- A day whose range is wide enough is not touched: who archives waits for nobody then.
CREATE FUNCTION note_archived_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO archive_days AS known (day, first_job_id, last_job_id)
    SELECT of_day.day, of_day.first_job_id, of_day.last_job_id
      FROM (SELECT (archived_at AT TIME ZONE 'UTC')::date AS day, min(job_id) AS first_job_id,
                   max(job_id) AS last_job_id FROM new_rows GROUP BY 1) of_day
     WHERE NOT EXISTS (SELECT FROM archive_days d WHERE d.day = of_day.day AND d.first_job_id <= of_day.first_job_id
                          AND d.last_job_id >= of_day.last_job_id)
     ORDER BY of_day.day
    ON CONFLICT (day) DO UPDATE SET first_job_id = least(known.first_job_id, excluded.first_job_id),
                                    last_job_id = greatest(known.last_job_id, excluded.last_job_id);
    INSERT INTO archive_days_of_tasks (task_id, day)
    SELECT DISTINCT task_id, (archived_at AT TIME ZONE 'UTC')::date FROM new_rows ORDER BY 1, 2
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_archive_noted AFTER INSERT ON jobs_archive
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION note_archived_jobs();
ALTER TABLE jobs_archive ENABLE ALWAYS TRIGGER jobs_archive_noted;  -- also where rows come from another database

-- Jobs wherever they live, for questions about all attempts at a file; dispatch and generation read `jobs` and
-- `jobs_archive` themselves.
CREATE VIEW every_job AS
    SELECT job_id, task_id, status, attempt_number, job_type, error_source, error_code, results_applied_at,
           creation_time, end_time
      FROM jobs
    UNION ALL
    SELECT job_id, task_id, status, attempt_number, job_type, error_source, error_code, results_applied_at,
           creation_time, end_time
      FROM jobs_archive;

-- The condition that a row was archived on a day, with constants: the planner opens no other partition.
CREATE FUNCTION archived_on(day date) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('archived_at >= %L AND archived_at < %L', day || ' 00:00:00+00', day + 1 || ' 00:00:00+00')
$$;

-- Archived jobs by their ids.
CREATE FUNCTION archived_jobs(wanted bigint[]) RETURNS SETOF jobs_archive LANGUAGE plpgsql STABLE ROWS 10 AS $$
DECLARE archived date;
BEGIN
    FOR archived IN
        SELECT d.day FROM archive_days d
         WHERE d.first_job_id <= (SELECT max(w) FROM unnest(wanted) w) AND d.last_job_id >= (SELECT min(w) FROM unnest(wanted) w)
           AND EXISTS (SELECT FROM unnest(wanted) w WHERE w BETWEEN d.first_job_id AND d.last_job_id)
         ORDER BY d.day DESC
    LOOP
        RETURN QUERY EXECUTE 'SELECT * FROM jobs_archive WHERE job_id = ANY($1) AND ' || archived_on(archived) USING wanted;
    END LOOP;
END $$;

-- Archived jobs of tasks, in these states (NULL: in any), before an id (NULL: before none); of each day at most so many
-- of the newest (NULL: all).
CREATE FUNCTION archived_jobs_of_tasks(
    wanted bigint[], statuses text[] DEFAULT NULL, at_most int DEFAULT NULL, before_id bigint DEFAULT NULL
) RETURNS SETOF jobs_archive LANGUAGE plpgsql STABLE AS $$
DECLARE archived date;
BEGIN
    FOR archived IN SELECT DISTINCT d.day FROM archive_days_of_tasks d WHERE d.task_id = ANY(wanted) ORDER BY d.day DESC LOOP
        RETURN QUERY EXECUTE 'SELECT * FROM jobs_archive WHERE task_id = ANY($1) AND ($2 IS NULL OR status = ANY($2))'
            ' AND ($4 IS NULL OR job_id < $4) AND ' || archived_on(archived) || ' ORDER BY job_id DESC LIMIT $3'
            USING wanted, statuses, at_most, before_id;
    END LOOP;
END $$;

-- How many archived jobs of tasks are in which state, of each day and state at most so many (NULL: all); from the index
-- alone.
CREATE FUNCTION archived_job_counts(wanted bigint[], at_most bigint DEFAULT NULL)
RETURNS TABLE (task_id bigint, status text, n_jobs bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE archived date;
BEGIN
    FOR archived IN SELECT DISTINCT d.day FROM archive_days_of_tasks d WHERE d.task_id = ANY(wanted) LOOP
        IF at_most IS NULL THEN
            RETURN QUERY EXECUTE 'SELECT task_id, status, count(*) FROM jobs_archive WHERE task_id = ANY($1) AND '
                || archived_on(archived) || ' GROUP BY 1, 2' USING wanted;
        ELSE
            RETURN QUERY EXECUTE 'SELECT w.task_id, w.status, few.n FROM (SELECT * FROM unnest($1) AS t (task_id),'
                ' unnest(ARRAY[''finished'', ''failed'', ''closed'', ''cancelled'']) AS s (status)) w CROSS JOIN LATERAL ('
                'SELECT count(*) AS n FROM (SELECT FROM jobs_archive a WHERE a.task_id = w.task_id AND a.status = w.status'
                ' AND ' || archived_on(archived) || ' LIMIT $2) a) few WHERE few.n > 0' USING wanted, at_most;
        END IF;
    END LOOP;
END $$;

-- The ids of the archived jobs of tasks; from the index alone.
CREATE FUNCTION archived_job_ids(wanted bigint[])
RETURNS TABLE (task_id bigint, job_id bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE archived date;
BEGIN
    FOR archived IN SELECT DISTINCT d.day FROM archive_days_of_tasks d WHERE d.task_id = ANY(wanted) LOOP
        RETURN QUERY EXECUTE 'SELECT task_id, job_id FROM jobs_archive WHERE task_id = ANY($1) AND '
            || archived_on(archived) USING wanted;
    END LOOP;
END $$;

-- What the jobs of these tasks went through, a row for each job.
CREATE FUNCTION transitions_of_jobs(wanted bigint[])
RETURNS TABLE (task_id bigint, job_id bigint, at timestamptz, from_status text, to_status text, actor text, reason text)
LANGUAGE sql STABLE AS $$
    WITH own AS MATERIALIZED (
        SELECT j.task_id, j.job_id FROM jobs j WHERE j.task_id = ANY(wanted)
        UNION
        SELECT a.task_id, a.job_id FROM archived_job_ids(wanted) a
    )
    SELECT l.task_id, l.entity_id, l.at, l.from_status, l.to_status, l.actor, l.reason FROM transition_log l
     WHERE l.task_id = ANY(wanted) AND l.entity = 'job' AND l.entity_id IS NOT NULL
    UNION ALL
    SELECT own.task_id, own.job_id, l.at, l.from_status, l.to_status, l.actor, l.reason
      FROM transition_log l CROSS JOIN LATERAL unnest(l.entity_ids) AS i (job_id) JOIN own ON own.job_id = i.job_id
     WHERE l.entity = 'job' AND l.entity_ids && ARRAY(SELECT own.job_id FROM own)
$$;

-- Tasks that ended so long ago that their rows were dropped: what is told of them. Files follow in slices.
CREATE TABLE tasks_archive (
    task_id bigint PRIMARY KEY,                -- its id
    user_name varchar(128) NOT NULL,           -- its owner
    vo varchar(16),                            -- VO
    status varchar(64) NOT NULL,               -- how it ended
    task jsonb NOT NULL,                       -- the columns of its row
    task_parameters jsonb,                     -- the JSON as it was submitted, or as a command changed it
    datasets jsonb NOT NULL,                   -- its datasets with their counters
    outputs jsonb NOT NULL DEFAULT '{}',       -- how files of its output datasets are named, by dataset: they are not written anew
    has_rows_left boolean NOT NULL DEFAULT true,   -- whether files, or ranges of events, are still to be dropped
    archived_at timestamptz NOT NULL DEFAULT orrery_now()   -- when it came here
);
CREATE INDEX tasks_archive_left ON tasks_archive (task_id) WHERE has_rows_left;
CREATE INDEX tasks_archive_old ON tasks_archive (archived_at);
CREATE INDEX tasks_archive_outputs ON tasks_archive USING gin (outputs);

-- Files of archived tasks, some hundred in a row.
CREATE TABLE task_files_archive (
    task_id bigint NOT NULL,                   -- the task
    first_file_id bigint NOT NULL,             -- the id of the first of them
    dataset_id bigint NOT NULL,                -- their dataset
    n_files int NOT NULL,                      -- how many
    files jsonb NOT NULL,                      -- name, state, attempts, size, checksum, GUID, jobs of each
    PRIMARY KEY (task_id, first_file_id)
);
