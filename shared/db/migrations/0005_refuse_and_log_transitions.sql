-- The database refuses what the graphs do not have, and logs every change of a task, dataset or job by itself.
-- Three functions of one shape: a statement-level trigger names its transition table's key in static SQL, so that its plan is kept.

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
CREATE TRIGGER tasks_transitions AFTER UPDATE ON tasks
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_tasks();

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
CREATE TRIGGER task_datasets_transitions AFTER UPDATE ON task_datasets
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_datasets();

CREATE FUNCTION check_and_log_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE bad record;
BEGIN
    SELECT n.job_id AS id, o.status AS was, n.status AS wanted INTO bad
      FROM new_rows n JOIN old_rows o USING (job_id)
     WHERE n.status <> o.status
       AND NOT EXISTS (SELECT FROM allowed_transitions a
                        WHERE a.entity = 'job' AND a.from_status = o.status AND a.to_status = n.status)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job % may not go from % to %', bad.id, bad.was, bad.wanted USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason, cause_event_id)
    SELECT orrery_now(), 'job', n.job_id, n.task_id, o.status, n.status, orrery_setting('actor', current_user),
           orrery_setting('reason', 'unstated'), nullif(orrery_setting('cause', ''), '')::bigint
      FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.status <> o.status;
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_transitions AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_and_log_jobs();

-- Insertions: only initial states; a task's insertion is logged, a job's is its creation_time.
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
CREATE TRIGGER tasks_inserted AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('task');
CREATE TRIGGER task_datasets_inserted AFTER INSERT ON task_datasets
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('dataset');
CREATE TRIGGER jobs_inserted AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION check_inserted_status('job');

CREATE FUNCTION log_inserted_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO transition_log (at, entity, entity_id, task_id, from_status, to_status, actor, reason, cause_event_id)
    SELECT orrery_now(), 'task', n.task_id, n.task_id, NULL, n.status, orrery_setting('actor', current_user),
           orrery_setting('reason', 'unstated'), nullif(orrery_setting('cause', ''), '')::bigint FROM new_rows n;
    RETURN NULL;
END $$;
CREATE TRIGGER tasks_insert_logged AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION log_inserted_tasks();
