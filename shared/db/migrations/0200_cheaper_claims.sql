-- What a claim writes and reads, without what it has no use for.

-- The text for the pilot is stored as it was made and handed out as it is: jsonb was written as text anew for each claim.
-- Whose secrets go with a job is known beside it, so that nothing has to be read in the text.
ALTER TABLE job_specs ALTER COLUMN spec TYPE json USING spec::text::json;
ALTER TABLE job_specs ADD COLUMN secrets_of text GENERATED ALWAYS AS (
    CASE WHEN strpos(spec::text, '"useSecrets"') > 0 AND spec ->> 'useSecrets' = 'True'
         THEN coalesce(spec ->> 'prodUserID', '') END) STORED;

-- Steps are counted once, then each kind of step is checked and logged. Old and new rows are matched by hash: a loop
-- through all pairs, which the settings of the claim sessions ask for, costs the square of the batch.
CREATE OR REPLACE FUNCTION check_and_log_jobs() RETURNS trigger LANGUAGE plpgsql
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
