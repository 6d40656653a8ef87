-- Jobs that make the same step in one statement have one row in the log, with their ids; a single job has its own as
-- before. A batch of several tasks names no task: its jobs do.
CREATE OR REPLACE FUNCTION check_and_log_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
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
    INSERT INTO transition_log (at, entity, entity_id, entity_ids, task_id, from_status, to_status, actor, reason,
                                cause_event_id)
    SELECT orrery_now(), 'job', CASE WHEN count(*) = 1 THEN min(n.job_id) END,
           CASE WHEN count(*) > 1 THEN array_agg(n.job_id ORDER BY n.job_id) END,
           CASE WHEN min(n.task_id) = max(n.task_id) THEN min(n.task_id) END, o.status, n.status,
           orrery_setting('actor', current_user), orrery_setting('reason', 'unstated'),
           nullif(orrery_setting('cause', ''), '')::bigint
      FROM new_rows n JOIN old_rows o USING (job_id) WHERE n.status <> o.status
     GROUP BY o.status, n.status;
    RETURN NULL;
END $$;

-- The rows of a job. A short list of what is not sorted in yet: whoever fills it sorts it in, and that is a claim.
CREATE INDEX transition_log_batches ON transition_log USING gin (entity_ids) WITH (gin_pending_list_limit = 256)
    WHERE entity = 'job' AND entity_ids IS NOT NULL;

-- What the jobs of these tasks went through, a row for each job.
CREATE FUNCTION transitions_of_jobs(wanted bigint[])
RETURNS TABLE (task_id bigint, job_id bigint, at timestamptz, from_status text, to_status text, actor text, reason text)
LANGUAGE sql STABLE AS $$
    WITH own AS MATERIALIZED (
        SELECT j.task_id, j.job_id FROM jobs j WHERE j.task_id = ANY(wanted)
        UNION
        SELECT a.task_id, a.job_id FROM jobs_archive a WHERE a.task_id = ANY(wanted)
    )
    SELECT l.task_id, l.entity_id, l.at, l.from_status, l.to_status, l.actor, l.reason FROM transition_log l
     WHERE l.task_id = ANY(wanted) AND l.entity = 'job' AND l.entity_id IS NOT NULL
    UNION ALL
    SELECT own.task_id, own.job_id, l.at, l.from_status, l.to_status, l.actor, l.reason
      FROM transition_log l CROSS JOIN LATERAL unnest(l.entity_ids) AS i (job_id) JOIN own ON own.job_id = i.job_id
     WHERE l.entity = 'job' AND l.entity_ids && ARRAY(SELECT own.job_id FROM own)
$$;
