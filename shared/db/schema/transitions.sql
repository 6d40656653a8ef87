-- Changes of state: the database refuses what the graphs of shared/states do not have, and logs every change of a task,
-- dataset or job by itself. The triggers stand with their tables.

-- The arrows of shared/states; `orrery migrate` fills the table from them.
CREATE TABLE allowed_transitions (
    entity text NOT NULL,                      -- task, dataset, file, event_range, job
    from_status text NOT NULL DEFAULT '',      -- '': insertion
    to_status text NOT NULL,                   -- the state after
    PRIMARY KEY (entity, from_status, to_status)
);

-- Every change of state, one partition for each day. Jobs that make the same step in one statement have one row, with
-- their ids; a single job has its own.
CREATE TABLE transition_log (
    at timestamptz NOT NULL,                   -- when
    entity text NOT NULL,                      -- task, dataset, file, event_range, job
    entity_id bigint,                          -- which
    entity_ids bigint[],                       -- which, where they are several
    task_id bigint,                            -- whose; NULL: a batch of several tasks, its jobs tell
    from_status text,                          -- NULL: it was inserted
    to_status text NOT NULL,                   -- the state after
    actor text NOT NULL,                       -- the service
    reason text NOT NULL,                      -- why
    cause_event_id bigint,                     -- the event that was being handled
    CHECK ((entity_id IS NULL) <> (entity_ids IS NULL))
) PARTITION BY RANGE (at);
CREATE TABLE transition_log_default PARTITION OF transition_log DEFAULT;
CREATE INDEX transition_log_task ON transition_log (task_id, at);
CREATE INDEX transition_log_entity ON transition_log (entity, entity_id, at) WHERE entity_id IS NOT NULL;
-- Why a task goes before others, or to one queue: few rows.
CREATE INDEX transition_log_orders ON transition_log (task_id, at) WHERE entity = 'order';
-- The rows of a job. A short list of what is not sorted in yet: whoever fills it sorts it in, and that is a claim.
CREATE INDEX transition_log_batches ON transition_log USING gin (entity_ids) WITH (gin_pending_list_limit = 256)
    WHERE entity = 'job' AND entity_ids IS NOT NULL;

-- Three functions of one shape: a statement-level trigger names its transition table's key in static SQL, so that its
-- plan is kept.
CREATE FUNCTION check_and_log_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad record;
BEGIN
    SELECT n.task_id AS id, o.status AS was, n.status AS wanted INTO bad
      FROM new_rows n JOIN old_rows o USING (task_id)
     WHERE n.status <> o.status
       AND NOT EXISTS (SELECT FROM allowed_transitions a
                        WHERE a.entity = 'task' AND a.from_status = o.status AND a.to_status = n.status)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'task % may not go from % to %', bad.id, bad.was, bad.wanted USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason, cause_event_id)
    SELECT orrery_now(), 'task', n.task_id, n.task_id, o.status, n.status, orrery_setting('actor', current_user),
           orrery_setting('reason', 'unstated'), nullif(orrery_setting('cause', ''), '')::bigint
      FROM new_rows n JOIN old_rows o USING (task_id) WHERE n.status <> o.status;
    RETURN NULL;
END $$;

CREATE FUNCTION check_and_log_datasets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad record;
BEGIN
    SELECT n.dataset_id AS id, o.status AS was, n.status AS wanted INTO bad
      FROM new_rows n JOIN old_rows o USING (dataset_id)
     WHERE n.status <> o.status
       AND NOT EXISTS (SELECT FROM allowed_transitions a
                        WHERE a.entity = 'dataset' AND a.from_status = o.status AND a.to_status = n.status)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dataset % may not go from % to %', bad.id, bad.was, bad.wanted
            USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason, cause_event_id)
    SELECT orrery_now(), 'dataset', n.dataset_id, n.task_id, o.status, n.status, orrery_setting('actor', current_user),
           orrery_setting('reason', 'unstated'), nullif(orrery_setting('cause', ''), '')::bigint
      FROM new_rows n JOIN old_rows o USING (dataset_id) WHERE n.status <> o.status;
    RETURN NULL;
END $$;

-- Steps are counted once, then each kind of step is checked and logged. Old and new rows are matched by hash: a loop
-- through all pairs, which the settings of the claim sessions ask for, costs the square of the batch.
CREATE FUNCTION check_and_log_jobs() RETURNS trigger LANGUAGE plpgsql
SET enable_hashjoin = on SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE step record;
BEGIN
    FOR step IN
        SELECT o.status AS was, n.status AS wanted, array_agg(n.job_id ORDER BY n.job_id) AS job_ids,
               min(n.task_id) AS first_task, max(n.task_id) AS last_task
          FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.status <> o.status
         GROUP BY o.status, n.status
    LOOP
        IF NOT EXISTS (SELECT FROM allowed_transitions a
                        WHERE a.entity = 'job' AND a.from_status = step.was AND a.to_status = step.wanted) THEN
            RAISE EXCEPTION 'job % may not go from % to %', step.job_ids[1], step.was, step.wanted
                USING ERRCODE = 'check_violation';
        END IF;
        INSERT INTO transition_log (at, entity, entity_id, entity_ids, task_id, from_status, to_status, actor, reason,
                                    cause_event_id)
        VALUES (orrery_now(), 'job', CASE WHEN cardinality(step.job_ids) = 1 THEN step.job_ids[1] END,
                CASE WHEN cardinality(step.job_ids) > 1 THEN step.job_ids END,
                CASE WHEN step.first_task = step.last_task THEN step.first_task END, step.was, step.wanted,
                orrery_setting('actor', current_user), orrery_setting('reason', 'unstated'),
                nullif(orrery_setting('cause', ''), '')::bigint);
    END LOOP;
    RETURN NULL;
END $$;

-- Rows are inserted in initial states only.
CREATE FUNCTION check_inserted_status() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad text;
BEGIN
    SELECT n.status INTO bad FROM new_rows n
     WHERE NOT EXISTS (SELECT FROM allowed_transitions a
                        WHERE a.entity = TG_ARGV[0] AND a.from_status = '' AND a.to_status = n.status) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a % may not be inserted in state %', TG_ARGV[0], bad USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

-- The insertion of a task is logged; that of a job is its creation_time.
CREATE FUNCTION log_inserted_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason, cause_event_id)
    SELECT orrery_now(), 'task', n.task_id, n.task_id, NULL, n.status, orrery_setting('actor', current_user),
           orrery_setting('reason', 'unstated'), nullif(orrery_setting('cause', ''), '')::bigint FROM new_rows n;
    RETURN NULL;
END $$;
