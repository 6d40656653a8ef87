-- name: produced_outputs
-- Outputs of jobs; `is_foreign`: where the name has come to belong to another VO since. Index
-- task_files_producer.
SELECT f.out_job_id AS job_id, f.file_id, f.lfn, d.dataset_name, d.type IN ('log', 'trn_log') AS is_log, d.storage_token AS token,
       CASE WHEN d.site IS NOT NULL AND c.dataset_id IS NULL THEN d.container_name END AS new_in_container, d.scope,
       coalesce(c.vo, s.vo, '') NOT IN ('', t.vo) AS is_foreign
  FROM task_files f JOIN tasks t USING (task_id)
  JOIN task_datasets d ON d.dataset_id = f.dataset_id
  LEFT JOIN catalogue.datasets c ON c.name = d.dataset_name
  LEFT JOIN catalogue.scopes s ON s.scope = catalogue.owning_scope(d.dataset_name)
 WHERE f.out_job_id = ANY(:job_ids::bigint[])
   AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
 ORDER BY f.file_id;

-- name: outputs_by_expression
-- Outputs of holding jobs that reported success, of which one or more is named by an expression; locked as others lock
-- them before they count, and their jobs, which nobody ends meanwhile. Index task_files_producer.
SELECT f.out_job_id AS job_id, f.task_id, f.file_id, f.lfn, d.dataset_name, r.report -> 'outputs' AS outputs
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id
  JOIN jobs j ON j.job_id = f.out_job_id JOIN job_reports r ON r.job_id = j.job_id
 WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND j.status = 'holding' AND r.state = 'finished'
   AND EXISTS (SELECT FROM task_files e WHERE e.out_job_id = f.out_job_id AND e.lfn LIKE :begins)
 ORDER BY j.job_id, f.file_id FOR NO KEY UPDATE OF f FOR SHARE OF j;

-- name: lock_names
-- One at a time gives names to outputs in these datasets, which several tasks may write.
SELECT pg_advisory_xact_lock(hashtext('names_of_outputs'), number)
  FROM (SELECT DISTINCT hashtext(name) AS number FROM unnest(:datasets::text[]) AS n (name) ORDER BY 1) sorted;

-- name: taken_names
-- Of these names, those that an output of the task has, or in the dataset one of another task or a file that the
-- catalogue knows. What an attempt wrote that failed, or was lost, has its name no more. Indexes task_datasets_name,
-- task_files_unit.
SELECT n.task_id, n.lfn
  FROM unnest(:task_ids::bigint[], :datasets::text[], :lfns::text[]) AS n (task_id, dataset, lfn)
  JOIN LATERAL (
       SELECT bool_or(f.status NOT IN ('failed', 'cancelled', 'nooutput', 'lost')) AS is_kept
         FROM (SELECT dataset_id FROM task_datasets WHERE task_id = n.task_id
                  AND type IN ('output', 'log', 'trn_output', 'trn_log')
               UNION
               SELECT dataset_id FROM task_datasets WHERE dataset_name = n.dataset
                  AND type IN ('output', 'log', 'trn_output', 'trn_log')) d
         JOIN task_files f ON f.dataset_id = d.dataset_id AND f.lfn = n.lfn) known ON true
 WHERE known.is_kept
    OR (known.is_kept IS NULL AND EXISTS (
        SELECT FROM catalogue.datasets c JOIN catalogue.files k USING (dataset_id)
         WHERE c.name = n.dataset AND k.lfn = n.lfn));

-- name: free_names
-- What attempts wrote that failed, or was lost, is called by its job besides where another attempt wrote the same
-- names: of each its dataset and former name. Index task_files_unit.
UPDATE task_files f SET lfn = substr(n.lfn, 1, 230) || '|' || f.out_job_id
  FROM (SELECT d.dataset_id, d.dataset_name, w.lfn
          FROM unnest(:datasets::text[], :lfns::text[]) AS w (dataset, lfn)
          JOIN task_datasets d ON d.dataset_name = w.dataset
                               AND d.type IN ('output', 'log', 'trn_output', 'trn_log')) n
 WHERE f.dataset_id = n.dataset_id AND f.lfn = n.lfn AND f.status IN ('failed', 'cancelled', 'nooutput', 'lost')
RETURNING n.dataset_name, n.lfn;

-- name: name_outputs
-- Outputs are called as the first file that was written for them.
UPDATE task_files f SET lfn = n.lfn
  FROM unnest(:file_ids::bigint[], :lfns::text[]) AS n (file_id, lfn)
 WHERE f.file_id = n.file_id;

-- name: add_outputs
-- Further files that were written for outputs, each in the dataset of its output.
WITH added AS (
    INSERT INTO task_files (dataset_id, task_id, lfn, type, scope, status, out_job_id)
    SELECT f.dataset_id, f.task_id, n.lfn, f.type, f.scope, 'defined', f.out_job_id
      FROM unnest(:file_ids::bigint[], :lfns::text[]) WITH ORDINALITY AS n (file_id, lfn, place)
      JOIN task_files f USING (file_id) ORDER BY n.place
    RETURNING dataset_id)
UPDATE task_datasets d SET n_files = d.n_files + a.n_files
  FROM (SELECT dataset_id, count(*)::int AS n_files FROM added GROUP BY dataset_id ORDER BY dataset_id) a
 WHERE d.dataset_id = a.dataset_id;

-- name: holding_jobs
-- Of these jobs, those that wait for their outputs to be registered, with what their pilots reported.
SELECT j.job_id, j.task_id, j.queue, j.prod_source_label, t.vo, t.task_type, r.report, r.state AS reported_state,
       true AS is_holding
  FROM jobs j JOIN tasks t USING (task_id) LEFT JOIN job_reports r ON r.job_id = j.job_id
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND j.status = 'holding' ORDER BY j.job_id;

-- name: ended_jobs
-- Of these jobs, those that ended badly or were killed although their pilots reported: before or after.
SELECT j.job_id, j.task_id, j.queue, j.prod_source_label, t.vo, t.task_type, r.report,
       'failed' AS reported_state, false AS is_holding
  FROM (SELECT job_id, task_id, queue, prod_source_label FROM jobs
         WHERE job_id = ANY(:job_ids::bigint[]) AND status = ANY(:ended::text[])
        UNION ALL
        SELECT job_id, task_id, queue, prod_source_label FROM archived_jobs(:job_ids::bigint[])
         WHERE status = ANY(:ended::text[])) j
  JOIN tasks t USING (task_id) JOIN job_reports r USING (job_id)
 ORDER BY j.job_id;

-- name: closed_logs
-- Of these datasets, those that are closed, and whether they are kept.
SELECT name, expires_at IS NULL AS is_kept FROM catalogue.datasets
 WHERE name = ANY(:names::text[]) AND state = 'frozen' ORDER BY name;

-- name: lock_copies
-- Of these jobs, copies of others that wait for their outputs to be registered: nobody takes them back meanwhile. Those
-- that failed register their log alone, and that decides nothing. Index job_set_jobs_pkey.
SELECT m.job_id, m.job_set_id FROM job_set_jobs m JOIN jobs j USING (job_id) LEFT JOIN job_reports r USING (job_id)
 WHERE m.job_id = ANY(:job_ids::bigint[]) AND m.role = 'clone' AND j.status = 'holding'
   AND r.state IS DISTINCT FROM 'failed'
 ORDER BY j.job_id FOR SHARE OF j;

-- name: choose_copies
-- The first copy of each set has it, until it ends badly while the set is open.
INSERT INTO stored_copies AS s (job_set_id, job_id)
SELECT job_set_id, min(job_id) FROM unnest(:set_ids::bigint[], :job_ids::bigint[]) AS w (job_set_id, job_id)
 GROUP BY job_set_id ORDER BY job_set_id
ON CONFLICT (job_set_id) DO UPDATE SET job_id = excluded.job_id
 WHERE EXISTS (SELECT FROM job_sets o WHERE o.job_set_id = s.job_set_id AND o.status = 'open')
   AND NOT EXISTS (SELECT FROM jobs j WHERE j.job_id = s.job_id AND j.status NOT IN ('failed', 'closed', 'cancelled'));

-- name: chosen_copies
-- The copies of these sets that have them.
SELECT job_id FROM stored_copies WHERE job_set_id = ANY(:set_ids::bigint[]);

-- name: describe_outputs
-- What the pilot measured of its outputs.
UPDATE task_files f SET fsize = m.fsize, guid = m.guid, checksum = m.checksum
  FROM (SELECT * FROM unnest(:file_ids::bigint[], :sizes::bigint[], :guids::text[], :checksums::text[])
                 AS u (file_id, fsize, guid, checksum)) m
 WHERE f.file_id = m.file_id AND f.status NOT IN ('finished', 'failed', 'cancelled', 'nooutput');

-- name: requested_transfers
-- In order of id, locked: two deliveries of the same request do not start a transfer twice.
SELECT transfer_id, job_id, direction, source_storage, destination_storage, n_bytes FROM transfers
 WHERE transfer_id = ANY(:transfer_ids::bigint[]) AND status = 'requested' ORDER BY transfer_id FOR UPDATE;

-- name: links
-- Measured numbers of these links.
SELECT source, destination, key, value FROM network_metrics
 WHERE (source, destination) IN (SELECT * FROM unnest(:sources::text[], :destinations::text[]))
   AND key = ANY(:keys::text[]);

-- name: start_transfers
-- Requested transfers begin; the time they take and how they will end are known.
UPDATE transfers t SET status = 'active', due_at = orrery_now() + make_interval(secs => s.duration_s), error = s.error
  FROM unnest(:transfer_ids::bigint[], :durations_s::double precision[], :errors::text[])
       AS s (transfer_id, duration_s, error)
 WHERE t.transfer_id = s.transfer_id AND t.status = 'requested';

-- name: end_due_transfers
-- Transfers whose time is over. Index transfers_due.
UPDATE transfers t
   SET status = CASE WHEN t.error IS NULL THEN 'done' ELSE 'failed' END, completed_at = orrery_now()
  FROM (SELECT transfer_id FROM transfers WHERE status = 'active' AND due_at <= orrery_now()
         ORDER BY due_at, transfer_id LIMIT :at_most::int FOR UPDATE SKIP LOCKED) due
 WHERE t.transfer_id = due.transfer_id
RETURNING t.transfer_id, t.job_id, t.direction, t.destination_storage, t.status;

-- name: moved_files
-- The files behind transfers that were done: final outputs, or inputs, of their jobs. Input that is used many times stays.
-- Indexes task_files_producer, job_files_pkey.
SELECT DISTINCT d.dataset_name, f.lfn, m.destination_storage AS storage, m.task_id,
       m.direction = 'input' AND coalesce(d.attributes ->> 'manytime', '') <> 'true' AS is_for_one_use
  FROM transfers m
  CROSS JOIN LATERAL (
       SELECT o.dataset_id, o.lfn FROM task_files o WHERE m.direction = 'output' AND o.out_job_id = m.job_id
       UNION ALL
       SELECT i.dataset_id, i.lfn FROM job_files jf JOIN task_files i USING (file_id)
        WHERE m.direction <> 'output' AND jf.job_id = m.job_id) f
  JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE m.transfer_id = ANY(:transfer_ids::bigint[])
   AND CASE WHEN m.direction = 'output' THEN d.type IN ('output', 'log') ELSE d.type = 'input' END
   AND (m.dataset_ids IS NULL OR d.dataset_id = ANY(m.dataset_ids))
 ORDER BY d.dataset_name, f.lfn, storage;

-- name: waiting_requests
-- Requests whose event never came.
SELECT transfer_id FROM transfers
 WHERE status = 'requested' AND requested_at < orrery_now() - make_interval(secs => :older_than_s::double precision)
 ORDER BY requested_at, transfer_id LIMIT :at_most::int;
