-- All SQL of job_dispatch.

-- name: lanes_of
-- The lanes of a queue that hold activated jobs, each with its first job: a loose scan, one index probe per lane however
-- many jobs it holds.
WITH RECURSIVE lane AS (
    (SELECT gshare, shape_id, -current_priority AS negated_priority, job_id FROM jobs
      WHERE queue = :queue AND status = 'activated'
      ORDER BY gshare, shape_id, (-current_priority), job_id LIMIT 1)
    UNION ALL
    SELECT next.gshare, next.shape_id, next.negated_priority, next.job_id
      FROM lane CROSS JOIN LATERAL (
        SELECT j.gshare, j.shape_id, -j.current_priority AS negated_priority, j.job_id FROM jobs j
         WHERE j.queue = :queue AND j.status = 'activated' AND (j.gshare, j.shape_id) > (lane.gshare, lane.shape_id)
         ORDER BY j.gshare, j.shape_id, (-j.current_priority), j.job_id LIMIT 1) next
)
SELECT gshare, shape_id, negated_priority, job_id FROM lane;

-- name: read_heads
-- The first entries of each of these lanes of a queue.
SELECT lane.gshare, lane.shape_id, head.negated_priority, head.job_id
  FROM unnest(:gshares::text[], :shape_ids::int[]) AS lane (gshare, shape_id)
 CROSS JOIN LATERAL (
    SELECT -j.current_priority AS negated_priority, j.job_id FROM jobs j
     WHERE j.queue = :queue AND j.gshare = lane.gshare AND j.shape_id = lane.shape_id AND j.status = 'activated'
     ORDER BY (-j.current_priority), j.job_id LIMIT :size::int) head;

-- name: read_lane
-- The next entries of one lane behind its cursor.
SELECT -current_priority AS negated_priority, job_id FROM jobs
 WHERE queue = :queue AND gshare = :gshare AND shape_id = :shape_id::int AND status = 'activated'
   AND ((-current_priority), job_id) > (:after_priority::int, :after_id::bigint)
 ORDER BY (-current_priority), job_id LIMIT :size::int;

-- name: still_activated
SELECT j.job_id, j.queue, j.gshare, j.shape_id, j.current_priority AS priority
  FROM unnest(:job_ids::bigint[]) AS lost (job_id)
 CROSS JOIN LATERAL (
    SELECT * FROM jobs WHERE jobs.job_id = lost.job_id AND jobs.status || '' = 'activated' LIMIT 1) j;

-- name: candidates_of_task
-- For a pilot that asks for one task only.
SELECT job_id, gshare, shape_id, -current_priority AS negated_priority FROM jobs
 WHERE task_id = :task_id AND status = 'activated' AND queue = :queue
 ORDER BY current_priority DESC, job_id LIMIT :size::int;

-- name: shapes
SELECT shape_id, prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s
  FROM requirement_shapes WHERE shape_id = ANY(:shape_ids::int[]);

-- name: live_adverts
-- What sites say of themselves that is still believed, for how much longer, and their queues.
SELECT a.site, a.max_jobs, a.max_submitting_jobs, a.current_jobs, a.current_submitting_jobs, a.current_matches,
       a.requirements, a.advertisement, a.advertised_at,
       extract(epoch FROM a.expires_at - orrery_now())::float AS left_s,
       ARRAY (SELECT q.queue FROM queues q WHERE q.site = a.site ORDER BY q.queue) AS queues
  FROM site_adverts a WHERE a.expires_at > orrery_now() ORDER BY a.site;

-- name: job_facts
-- What Requirements of sites may ask of these jobs.
SELECT j.job_id, j.task_id, j.core_count, s.ram_mb, t.user_name, t.current_priority, t.prod_source_label, t.vo,
       t.processing_type, t.working_group, t.gshare, t.split_rule ->> 'requirements' AS requirements
  FROM unnest(:job_ids::bigint[]) AS wanted (job_id)
 CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.job_id = wanted.job_id LIMIT 1) j
 CROSS JOIN LATERAL (SELECT * FROM requirement_shapes WHERE requirement_shapes.shape_id = j.shape_id LIMIT 1) s
 CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.task_id = j.task_id LIMIT 1) t;

-- name: claim
-- Everything that waits, in one statement: known request keys get the job they got before, while it is with its pilot;
-- jobs that are still activated are locked (others skipped), their claims written (the unique keys decide a race), and
-- only then moved. A key whose job has ended is free again: its old claim goes before the new one is written.
-- The LATERAL ... LIMIT 1 and the settings of the claim sessions keep every step a look-up by key.
WITH wanted AS MATERIALIZED (
    SELECT w.place, w.request_key, w.job_id, w.queue, w.shape_id, w.worker, w.subject, held.job_id AS known_id,
           known.job_id AS claimed_id
      FROM unnest(:request_keys::text[], :job_ids::bigint[], :queues::text[], :shape_ids::int[], :workers::text[],
                  :subjects::text[])
           WITH ORDINALITY AS w (request_key, job_id, queue, shape_id, worker, subject, place)
      LEFT JOIN LATERAL (
        SELECT c.job_id FROM job_claims c WHERE c.request_key = w.request_key LIMIT 1) known ON true
      LEFT JOIN LATERAL (
        SELECT jobs.job_id FROM jobs
         WHERE jobs.job_id = known.job_id AND jobs.status || '' IN ('sent', 'starting', 'running') LIMIT 1) held ON true
), locked AS MATERIALIZED (
    SELECT w.request_key, w.worker, w.subject, j.job_id, w.claimed_id
      FROM wanted w CROSS JOIN LATERAL (
        SELECT jobs.job_id FROM jobs
         -- an expression, not the column: without statistics the planner would take the lane index and scan a lane
         WHERE jobs.job_id = w.job_id AND jobs.status || '' = 'activated' AND jobs.queue = w.queue
           AND jobs.shape_id = w.shape_id
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
    UPDATE jobs SET status = 'sent', state_change_time = orrery_now(), heartbeat_at = orrery_now(), worker = l.worker
      FROM claimed c JOIN locked l ON l.job_id = c.job_id
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
)
SELECT w.place, w.known_id IS NOT NULL AS known, coalesce(w.known_id, c.job_id) AS job_id, spec.spec
  FROM wanted w
  LEFT JOIN claimed c ON c.job_id = w.job_id AND c.request_key = w.request_key
  LEFT JOIN LATERAL (
    SELECT s.spec::text AS spec FROM job_specs s WHERE s.job_id = coalesce(w.known_id, c.job_id) LIMIT 1) spec ON true;

-- name: lock_jobs
-- In the order of their ids, like everybody who locks several jobs.
SELECT j.job_id, j.task_id, j.status, j.attempt_number, j.queue, j.resource_type, j.gshare, j.user_name, j.core_count,
       j.command, j.shape_id, j.current_priority, j.job_type, j.prod_source_label,
       (SELECT c.subject FROM job_claims c WHERE c.job_id = j.job_id) AS claimed_by
  FROM jobs j WHERE j.job_id = ANY(:job_ids::bigint[]) ORDER BY j.job_id FOR NO KEY UPDATE;

-- name: reported_attempts
SELECT job_id, attempt_number FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]);

-- name: heartbeats!
UPDATE jobs SET heartbeat_at = orrery_now()
  FROM unnest(:job_ids::bigint[]) AS seen (job_id)
 WHERE jobs.job_id = seen.job_id AND jobs.status = ANY(:allowed::text[]);

-- name: start_jobs
UPDATE jobs SET status = :status, state_change_time = orrery_now(), heartbeat_at = orrery_now(),
       start_time = coalesce(start_time, CASE WHEN :status = 'running' THEN orrery_now() END)
  FROM unnest(:job_ids::bigint[]) AS started (job_id)
 WHERE jobs.job_id = started.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: end_jobs
-- Jobs reach a state after they ran, or will never run; errors where there are any.
UPDATE jobs SET status = :status, state_change_time = orrery_now(), end_time = coalesce(end_time, orrery_now()),
       error_source = coalesce(ended.error_source, jobs.error_source),
       error_code = coalesce(ended.error_code, jobs.error_code),
       error_dialog = coalesce(ended.error_dialog, jobs.error_dialog)
  FROM unnest(:job_ids::bigint[], :sources::text[], :codes::int[], :dialogs::text[])
       AS ended (job_id, error_source, error_code, error_dialog)
 WHERE jobs.job_id = ended.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: move_jobs
-- Jobs go on: their end time, if any, stays as it is.
UPDATE jobs SET status = :status, state_change_time = orrery_now()
  FROM unnest(:job_ids::bigint[]) AS moved (job_id)
 WHERE jobs.job_id = moved.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: insert_reports!
INSERT INTO job_reports (job_id, attempt_number, state, report)
SELECT * FROM unnest(:job_ids::bigint[], :attempts::smallint[], :states::text[], :reports::jsonb[])
ON CONFLICT (job_id) DO NOTHING;

-- name: expected_outputs
-- The files that jobs are to write; job_files has the inputs of merge jobs too, which others wrote.
SELECT jf.job_id, f.lfn, d.type IN ('log', 'trn_log') AS is_log,
       coalesce(d.attributes ->> 'allowNoOutput', 'false') <> 'false' AS may_be_absent
  FROM job_files jf
  JOIN task_files f ON f.file_id = jf.file_id AND f.out_job_id = jf.job_id
  JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE jf.job_id = ANY(:job_ids::bigint[]) AND jf.type IN ('output', 'log', 'trn_output', 'trn_log')
 ORDER BY jf.job_id, f.file_id;

-- name: input_facts
-- Per job and input dataset: how much of it the job reads, and how much of that is at the queue's storages.
SELECT need.job_id, need.dataset_id, need.dataset_name, need.n_files, need.n_bytes,
       EXISTS (SELECT FROM catalogue.dataset_replicas r
                WHERE r.dataset_id = d.dataset_id AND r.complete AND r.storage = ANY(need.storages)) AS complete_here,
       (SELECT count(DISTINCT f.file_id) FROM job_files jf2
          JOIN task_files tf ON tf.file_id = jf2.file_id
          JOIN catalogue.files f ON f.dataset_id = d.dataset_id AND f.lfn = tf.lfn
          JOIN catalogue.file_replicas fr ON fr.file_id = f.file_id AND fr.storage = ANY(need.storages)
         WHERE jf2.job_id = need.job_id AND jf2.dataset_id = need.dataset_id) AS n_files_here,
       (SELECT r.storage FROM catalogue.dataset_replicas r JOIN storages s ON s.storage = r.storage
         WHERE r.dataset_id = d.dataset_id
         ORDER BY r.complete DESC, s.is_tape, s.blacklisted_read, r.storage LIMIT 1) AS source_storage
  FROM (SELECT one.job_id, one.dataset_id, td.dataset_name, one.storages, count(*) AS n_files,
               coalesce(sum(one.fsize), 0)::bigint AS n_bytes
          FROM (SELECT DISTINCT ON (j.job_id, jf.dataset_id, tf.lfn)
                       j.job_id, jf.dataset_id, tf.lfn, tf.fsize, string_to_array(place.list, ',') AS storages
                  FROM jobs j
                  JOIN unnest(:queues::text[], :storage_lists::text[]) AS place (queue, list) ON place.queue = j.queue
                  JOIN job_files jf ON jf.job_id = j.job_id AND jf.type = 'input'
                  JOIN task_files tf ON tf.file_id = jf.file_id
                 WHERE j.job_id = ANY(:job_ids::bigint[])) one
          JOIN task_datasets td ON td.dataset_id = one.dataset_id
         GROUP BY one.job_id, one.dataset_id, td.dataset_name, one.storages) need
  LEFT JOIN catalogue.datasets d ON d.name = need.dataset_name
 ORDER BY need.job_id, need.dataset_id;

-- name: queue_places
-- Site and storages of queues, as loaded.
SELECT q.queue, q.site, q.status, q.data, s.data ->> 'default_ddm_endpoint' AS default_storage,
       (SELECT coalesce(array_agg(st.storage ORDER BY st.storage), '{}') FROM storages st
         WHERE st.site = q.site AND NOT st.is_tape) AS site_storages
  FROM queues q JOIN sites s USING (site) WHERE q.queue = ANY(:queues::text[]) ORDER BY q.queue;

-- name: task_facts
SELECT t.task_id, t.status, t.nucleus, t.split_rule, s.data ->> 'default_ddm_endpoint' AS nucleus_storage
  FROM tasks t LEFT JOIN sites s ON s.site = t.nucleus WHERE t.task_id = ANY(:task_ids::bigint[]) ORDER BY t.task_id;

-- name: open_transfer_jobs
-- Jobs that wait for an earlier request of the same direction: asking twice would move the data twice.
SELECT DISTINCT job_id FROM transfers
 WHERE job_id = ANY(:job_ids::bigint[]) AND direction = :direction AND status IN ('requested', 'active');

-- name: insert_transfers
INSERT INTO transfers (task_id, job_id, direction, activity, source_storage, destination_storage, n_files, n_bytes,
                       status)
SELECT new.task_id, new.job_id, :direction, new.activity, new.source_storage, new.destination_storage, new.n_files,
       new.n_bytes, 'requested'
  FROM unnest(:task_ids::bigint[], :job_ids::bigint[], :activities::text[], :sources::text[], :destinations::text[],
              :n_files::int[], :n_bytes::bigint[])
       WITH ORDINALITY AS new (task_id, job_id, activity, source_storage, destination_storage, n_files, n_bytes, place)
 ORDER BY new.place
RETURNING transfer_id;

-- name: waiting_transfers
-- Jobs of these that still wait for another transfer.
SELECT DISTINCT job_id FROM transfers WHERE job_id = ANY(:job_ids::bigint[]) AND status IN ('requested', 'active');

-- name: stored_reports
SELECT job_id, state, report FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]) ORDER BY job_id;

-- name: note_pilots!
INSERT INTO queue_activity (queue, last_pilot_at)
SELECT seen.queue, orrery_now() FROM unnest(:queues::text[]) AS seen (queue) ORDER BY seen.queue
ON CONFLICT (queue) DO UPDATE SET last_pilot_at = excluded.last_pilot_at;

-- name: note_workers!
INSERT INTO workers (harvester_id, worker_id, queue, status)
SELECT * FROM unnest(:harvester_ids::text[], :worker_ids::bigint[], :queues::text[], :statuses::text[])
ON CONFLICT (harvester_id, worker_id)
DO UPDATE SET queue = excluded.queue, status = excluded.status, updated_at = orrery_now()
 WHERE workers.status <> 'finished';

-- name: forget_claims!
-- Not those of jobs that are still with a pilot: its reports are held against the claim.
DELETE FROM job_claims WHERE request_key IN (
    SELECT request_key FROM job_claims
     WHERE claimed_at < orrery_now() - make_interval(secs => :older_than_s)
       AND NOT EXISTS (SELECT FROM jobs WHERE jobs.job_id = job_claims.job_id
                          AND jobs.status IN ('sent', 'starting', 'running'))
     ORDER BY claimed_at LIMIT :size::int FOR UPDATE SKIP LOCKED);

-- name: forget_workers!
-- Workers that ended a while ago, and those that were not heard of for longer than any pilot lives.
DELETE FROM workers
 WHERE status = 'finished' AND updated_at < orrery_now() - make_interval(secs => :older_than_s)
    OR updated_at < orrery_now() - make_interval(secs => :silent_s);

-- name: next_dispatcher_number$
SELECT nextval('dispatcher_numbers');

-- name: announce_replica!
INSERT INTO dispatch_replicas (replica, seen_at) VALUES (:replica, orrery_now())
ON CONFLICT (replica) DO UPDATE SET seen_at = excluded.seen_at;

-- name: replicas
SELECT replica FROM dispatch_replicas WHERE seen_at > orrery_now() - make_interval(secs => :alive_s) ORDER BY replica;

-- name: forget_replicas!
DELETE FROM dispatch_replicas WHERE seen_at < orrery_now() - make_interval(secs => :dead_s);

-- name: share_tree
SELECT gshare, value * correction_factor AS value, parent FROM shares ORDER BY gshare;

-- name: executing_by_share
SELECT st.gshare, sum(st.n_cores * coalesce(nullif(q.data ->> 'corepower', '')::float8, 10))::float8 AS hs06
  FROM queue_statistics st LEFT JOIN queues q ON q.queue = st.queue
 WHERE st.status IN ('sent', 'running') GROUP BY st.gshare ORDER BY st.gshare;

-- name: shares_version$
SELECT version FROM versions WHERE name = 'shares';

-- name: known_queues
SELECT queue FROM queues ORDER BY queue;

-- name: job_states
-- Status, attempt and command of jobs, finished ones from the archive.
SELECT wanted.job_id, coalesce(j.status, a.status) AS status, coalesce(j.attempt_number, a.attempt_number) AS
       attempt_number, j.command, coalesce(j.user_name, a.user_name) AS user_name
  FROM unnest(:job_ids::bigint[]) WITH ORDINALITY AS wanted (job_id, place)
  LEFT JOIN jobs j ON j.job_id = wanted.job_id
  LEFT JOIN LATERAL (
    SELECT * FROM jobs_archive old WHERE old.job_id = wanted.job_id LIMIT 1) a ON j.job_id IS NULL
 ORDER BY wanted.place;

-- name: list_jobs
WITH found AS (
    (SELECT * FROM jobs
      WHERE (:task_id::bigint IS NULL OR task_id = :task_id) AND (:status::text IS NULL OR status = :status)
        AND (:queue::text IS NULL OR queue = :queue) AND (:user_name::text IS NULL OR user_name = :user_name)
        AND (:job_ids::bigint[] IS NULL OR job_id = ANY(:job_ids)) AND (:before_id::bigint IS NULL OR job_id < :before_id)
      ORDER BY job_id DESC LIMIT :size::int)
    UNION ALL
    (SELECT job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
            resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
            start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code,
            error_dialog
       FROM jobs_archive
      WHERE (:task_id::bigint IS NULL OR task_id = :task_id) AND (:status::text IS NULL OR status = :status)
        AND (:queue::text IS NULL OR queue = :queue) AND (:user_name::text IS NULL OR user_name = :user_name)
        AND (:job_ids::bigint[] IS NULL OR job_id = ANY(:job_ids)) AND (:before_id::bigint IS NULL OR job_id < :before_id)
      ORDER BY job_id DESC LIMIT :size::int)
)
SELECT * FROM found ORDER BY job_id DESC LIMIT :size::int;

-- name: describe_jobs
SELECT wanted.job_id, s.task_id, s.spec, r.state AS reported_state, r.report, r.reported_at, t.user_name AS owner, t.vo
  FROM unnest(:job_ids::bigint[]) WITH ORDINALITY AS wanted (job_id, place)
  LEFT JOIN job_specs s ON s.job_id = wanted.job_id
  LEFT JOIN job_reports r ON r.job_id = wanted.job_id
  LEFT JOIN tasks t ON t.task_id = s.task_id
 ORDER BY wanted.place;

-- name: jobs_by_queue
SELECT queue, resource_type, status, sum(n_jobs)::bigint AS n_jobs, sum(n_cores)::bigint AS n_cores
  FROM queue_statistics WHERE n_jobs > 0 GROUP BY queue, resource_type, status ORDER BY queue, resource_type, status;

-- name: set_command
UPDATE jobs SET command = :command WHERE job_id = :job_id AND status = ANY(:allowed::text[]) RETURNING job_id;

-- name: take_back_command
-- Only this command: what was ordered since stays.
UPDATE jobs SET command = CASE WHEN command = :command THEN NULL ELSE command END
 WHERE job_id = :job_id AND status = ANY(:allowed::text[]) RETURNING job_id;

-- name: audit!
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles::text[], :verb, :target, :outcome, :details::jsonb);

-- name: advertise_site$
-- What was matched since the last advertisement is in the site's own numbers now. Nothing for a site the grid has not.
INSERT INTO site_adverts (site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches,
                          requirements, advertisement, expires_at)
SELECT :site::text, :max_jobs::int, :max_submitting_jobs::int, :current_jobs::int, :current_submitting_jobs::int,
       :current_jobs::int, :requirements::text, :advertisement::jsonb, :expires_at::timestamptz
WHERE EXISTS (SELECT FROM sites WHERE site = :site::text)
ON CONFLICT (site) DO UPDATE
SET max_jobs = excluded.max_jobs, max_submitting_jobs = excluded.max_submitting_jobs,
    current_jobs = excluded.current_jobs, current_submitting_jobs = excluded.current_submitting_jobs,
    current_matches = excluded.current_jobs, requirements = excluded.requirements,
    advertisement = excluded.advertisement, advertised_at = orrery_now(), expires_at = excluded.expires_at
RETURNING site;
