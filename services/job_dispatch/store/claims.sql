-- name: claim
-- Everything that waits, in one statement: known request keys get the job they got before, while it is with its pilot;
-- jobs that are still activated, with the share and priority that they were picked by, are locked (others skipped),
-- their claims written (the unique keys decide a race), and only then moved. A key whose job has ended is free again:
-- its old claim goes before the new one is written.
-- The LATERAL ... LIMIT 1 and the settings of the claim sessions keep every step a look-up by key; nothing joins two
-- steps of a batch, which would cost its square: the place of a key in the list says what else belongs to it.
WITH wanted AS MATERIALIZED (
    SELECT w.place, w.request_key, w.job_id, w.queue, w.gshare, w.shape_id, w.priority, w.subject,
           held.job_id AS known_id, known.job_id AS claimed_id
      FROM unnest(:request_keys::text[], :job_ids::bigint[], :queues::text[], :gshares::text[], :shape_ids::int[],
                  :priorities::int[], :subjects::text[])
           WITH ORDINALITY AS w (request_key, job_id, queue, gshare, shape_id, priority, subject, place)
      LEFT JOIN LATERAL (
        SELECT c.job_id FROM job_claims c WHERE c.request_key = w.request_key LIMIT 1) known ON true
      LEFT JOIN LATERAL (
        SELECT jobs.job_id FROM jobs
         WHERE jobs.job_id = known.job_id AND jobs.status || '' IN ('sent', 'starting', 'running') LIMIT 1) held ON true
), locked AS MATERIALIZED (
    SELECT w.request_key, w.subject, j.job_id, w.claimed_id
      FROM wanted w CROSS JOIN LATERAL (
        SELECT jobs.job_id FROM jobs
         -- an expression, not the column: without statistics the planner would take the lane index and scan a lane
         WHERE jobs.job_id = w.job_id AND jobs.status || '' = 'activated' AND jobs.queue = w.queue
           AND jobs.shape_id = w.shape_id AND jobs.gshare = w.gshare AND jobs.current_priority = w.priority
         LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) j
     WHERE w.known_id IS NULL
), ended AS (
    -- a claim that another replica is replacing at this moment is skipped: the insert below waits for the outcome
    DELETE FROM job_claims old USING (
        SELECT c.request_key, c.job_id FROM locked l CROSS JOIN LATERAL (
            SELECT request_key, job_id FROM job_claims
             WHERE job_claims.request_key = l.request_key AND job_claims.job_id = l.claimed_id
             LIMIT 1 FOR UPDATE SKIP LOCKED) c
         WHERE l.claimed_id IS NOT NULL) replaced
     WHERE old.request_key = replaced.request_key AND old.job_id = replaced.job_id
    RETURNING old.request_key
), claimed AS (
    INSERT INTO job_claims (request_key, job_id, subject)
    SELECT request_key, job_id, subject FROM locked WHERE (SELECT count(*) FROM ended) >= 0 ORDER BY request_key
    ON CONFLICT DO NOTHING
    RETURNING request_key, job_id
), taken AS (
    UPDATE jobs SET status = 'sent', state_change_time = orrery_now(), heartbeat_at = orrery_now(),
           deadline_at = orrery_deadline(d.after_change, d.after_creation, jobs.creation_time),
           worker = (:workers::text[])[array_position(:request_keys::text[], c.request_key)]
      FROM claimed c LEFT JOIN job_deadlines d ON d.status = 'sent'
     WHERE jobs.job_id = c.job_id AND jobs.status = 'activated'
    RETURNING jobs.job_id, jobs.task_id, jobs.queue, jobs.resource_type, jobs.gshare, jobs.user_name, jobs.core_count
), moves AS (
    SELECT task_id, queue, resource_type, gshare, user_name, 'activated' AS from_status, 'sent' AS to_status,
           count(*) AS n_jobs, sum(core_count) AS n_cores
      FROM taken GROUP BY task_id, queue, resource_type, gshare, user_name
), announced AS (
    INSERT INTO outbox (event_id, routing_key, body, producer)
    SELECT event.id, 'jobs.dispatched.v1',
           json_build_object('event_id', event.id, 'occurred_at', orrery_now(),
                             'job_ids', (SELECT json_agg(job_id ORDER BY job_id) FROM taken),
                             'moves', (SELECT json_agg(row_to_json(moves)) FROM moves))::text,
           :producer::text
      FROM (SELECT nextval('event_ids') AS id WHERE EXISTS (SELECT FROM taken)) event
), given AS (
    SELECT array_position(:request_keys::text[], claimed.request_key)::bigint AS place, false AS known, claimed.job_id
      FROM claimed
    UNION ALL
    SELECT wanted.place, true, wanted.known_id FROM wanted WHERE wanted.known_id IS NOT NULL
)
SELECT given.place, given.known, given.job_id, spec.spec, spec.task_id, spec.source_spots, spec.vo, spec.secrets
  FROM given LEFT JOIN LATERAL (
    -- what its owner keeps for the VO of the task goes with a job that uses it, in the claim itself: a job is never taken
    -- without. Of a task that somebody else submitted or changed nothing goes (access.OWN)
    SELECT s.spec::text AS spec, s.task_id, s.source_spots, t.vo,
           CASE WHEN s.secrets_of IS NOT NULL THEN coalesce(
                (SELECT jsonb_agg(jsonb_build_array(u.owner, u.vo, u.key, u.key_id, encode(u.sealed, 'base64')))::text
                   FROM user_secrets u
                  WHERE u.owner = t.user_name AND u.vo = t.vo AND t.submitted_by = t.user_name
                    AND t.changed_by IS NULL),
                '[]') END AS secrets
      FROM job_specs s LEFT JOIN LATERAL (
        -- read for these jobs alone: the look-up of a plain job is not begun
        SELECT vo, user_name, submitted_by, changed_by FROM tasks
         WHERE tasks.task_id = s.task_id AND (s.secrets_of IS NOT NULL OR :asks_vo::boolean) LIMIT 1) t ON true
     WHERE s.job_id = given.job_id LIMIT 1) spec ON true;
