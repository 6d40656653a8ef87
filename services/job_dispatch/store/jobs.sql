-- name: lock_jobs
-- In the order of their ids, like everybody who locks several jobs. `was_taken`: somebody changed its state between the
-- beginning of this statement and the lock, so that who acquired it is not told as it is now.
-- told by: nobody; they are locked to be changed
SELECT j.job_id, j.task_id, j.status, j.attempt_number, j.queue, j.resource_type, j.gshare, j.user_name, j.core_count,
       j.command, j.shape_id, j.current_priority, j.job_type, j.prod_source_label, j.order_key_id,
       (SELECT c.subject FROM job_claims c WHERE c.job_id = j.job_id) AS claimed_by,
       (SELECT s.vo FROM requirement_shapes s WHERE s.shape_id = j.shape_id) AS vo,
       j.state_change_time IS DISTINCT FROM (SELECT o.state_change_time FROM jobs o WHERE o.job_id = j.job_id)
           AS was_taken
  FROM jobs j WHERE j.job_id = ANY(:job_ids::bigint[]) ORDER BY j.job_id FOR NO KEY UPDATE;

-- name: lock_free_jobs
-- The same without those that another transaction holds.
SELECT j.job_id, j.task_id, j.status, j.attempt_number, j.queue, j.resource_type, j.gshare, j.user_name, j.core_count,
       j.command, j.shape_id, j.current_priority, j.job_type, j.prod_source_label, j.order_key_id,
       (SELECT c.subject FROM job_claims c WHERE c.job_id = j.job_id) AS claimed_by,
       (SELECT s.vo FROM requirement_shapes s WHERE s.shape_id = j.shape_id) AS vo,
       j.state_change_time IS DISTINCT FROM (SELECT o.state_change_time FROM jobs o WHERE o.job_id = j.job_id)
           AS was_taken
  FROM jobs j WHERE j.job_id = ANY(:job_ids::bigint[]) ORDER BY j.job_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: existing_jobs
-- Which of these jobs are live, without waiting for whoever holds their rows.
SELECT job_id FROM jobs WHERE job_id = ANY(:job_ids::bigint[]);

-- name: reported_attempts
-- Which of these jobs have a final report, and of which attempt.
SELECT job_id, attempt_number FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]);

-- name: ended_without_report
-- Of these jobs, those that ended before their pilot reported it, with who acquired them and the logs they were to
-- write. Index task_files_producer.
SELECT e.job_id, e.attempt_number, c.subject AS claimed_by, s.vo,
       ARRAY (SELECT f.lfn FROM task_files f
               WHERE f.out_job_id = e.job_id AND f.type IN ('log', 'trn_log') ORDER BY f.file_id) AS logs
  FROM (SELECT job_id, attempt_number, shape_id FROM jobs
         WHERE job_id = ANY(:job_ids::bigint[]) AND status = ANY(:ended::text[])
        UNION ALL
        SELECT job_id, attempt_number, shape_id FROM archived_jobs(:job_ids::bigint[])
         WHERE status = ANY(:ended::text[])) e
  JOIN job_claims c USING (job_id) LEFT JOIN requirement_shapes s USING (shape_id)
 WHERE NOT EXISTS (SELECT FROM job_reports r WHERE r.job_id = e.job_id)
 ORDER BY e.job_id;

-- name: heartbeats
-- Pilots sent heartbeats; jobs that are no longer with their pilots do not change. By primary key.
UPDATE jobs SET heartbeat_at = orrery_now()
  FROM unnest(:job_ids::bigint[]) AS seen (job_id)
 WHERE jobs.job_id = seen.job_id AND jobs.status = ANY(:allowed::text[]);

-- name: start_jobs
-- Jobs begin on their worker nodes, by compare-and-set.
-- done for: PILOTS
UPDATE jobs SET status = :status, state_change_time = orrery_now(), heartbeat_at = orrery_now(),
       start_time = coalesce(start_time, CASE WHEN :status = 'running' THEN orrery_now() END),
       deadline_at = orrery_deadline(started.after_change, started.after_creation, jobs.creation_time)
  FROM (SELECT l.job_id, d.after_change, d.after_creation
          FROM unnest(:job_ids::bigint[]) AS l (job_id) LEFT JOIN job_deadlines d ON d.status = :status) AS started
 WHERE jobs.job_id = started.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: end_jobs
-- Jobs reach a state after they ran, or will never run; errors where there are any.
-- done for: COMMANDS, PILOTS
UPDATE jobs SET status = :status, state_change_time = orrery_now(), end_time = coalesce(end_time, orrery_now()),
       error_source = coalesce(ended.error_source, jobs.error_source),
       error_code = coalesce(ended.error_code, jobs.error_code),
       error_dialog = coalesce(ended.error_dialog, jobs.error_dialog),
       deadline_at = orrery_deadline(ended.after_change, ended.after_creation, jobs.creation_time)
  FROM (SELECT l.*, d.after_change, d.after_creation
          FROM unnest(:job_ids::bigint[], :sources::text[], :codes::int[], :dialogs::text[])
               AS l (job_id, error_source, error_code, error_dialog)
          LEFT JOIN job_deadlines d ON d.status = :status) AS ended
 WHERE jobs.job_id = ended.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: move_jobs
-- Jobs go on: their end time, if any, stays as it is.
-- done for: COMMANDS
UPDATE jobs SET status = :status, state_change_time = orrery_now(),
       deadline_at = orrery_deadline(moved.after_change, moved.after_creation, jobs.creation_time)
  FROM (SELECT l.job_id, d.after_change, d.after_creation
          FROM unnest(:job_ids::bigint[]) AS l (job_id) LEFT JOIN job_deadlines d ON d.status = :status) AS moved
 WHERE jobs.job_id = moved.job_id AND jobs.status = ANY(:allowed::text[])
RETURNING jobs.job_id;

-- name: insert_reports
-- Final reports; the first one of a job stays.
-- done for: PILOTS
INSERT INTO job_reports (job_id, attempt_number, state, report)
SELECT * FROM unnest(:job_ids::bigint[], :attempts::smallint[], :states::text[], :reports::jsonb[])
ON CONFLICT (job_id) DO NOTHING;

-- name: expected_outputs
-- The files that jobs are to write. Index task_files_producer.
SELECT f.out_job_id AS job_id, f.lfn, d.type IN ('log', 'trn_log') AS is_log,
       coalesce(d.attributes ->> 'allowNoOutput', 'false') <> 'false' AS may_be_absent
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
 ORDER BY f.out_job_id, f.file_id;

-- name: outputs_of_jobs
-- The files that jobs are to write, with where their dataset is to be kept. Index task_files_producer.
SELECT f.out_job_id AS job_id, f.lfn, d.dataset_id, d.storage_token, d.destination
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
 ORDER BY f.out_job_id, f.file_id;

-- name: taken_names
-- Files that these jobs report and that are files of others: of another job of the task, or of the catalogue.
-- Index task_files_unit.
SELECT j.job_id, o.lfn
  FROM jobs j JOIN job_reports r USING (job_id) CROSS JOIN LATERAL jsonb_object_keys(r.report -> 'outputs') o (lfn)
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND EXISTS (
       SELECT FROM task_datasets d LEFT JOIN catalogue.datasets c ON c.name = d.dataset_name
        WHERE d.task_id = j.task_id AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
          AND (EXISTS (SELECT FROM task_files f
                        WHERE f.dataset_id = d.dataset_id AND f.lfn = o.lfn AND f.out_job_id <> j.job_id)
               OR EXISTS (SELECT FROM catalogue.files k WHERE k.dataset_id = c.dataset_id AND k.lfn = o.lfn)))
 ORDER BY j.job_id, o.lfn;

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
       ARRAY (SELECT r.storage FROM catalogue.dataset_replicas r
               WHERE r.dataset_id = d.dataset_id AND r.complete) AS complete_at,
       ARRAY (SELECT r.storage FROM catalogue.dataset_replicas r
               WHERE r.dataset_id = d.dataset_id AND NOT r.complete) AS partly_at
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

-- name: task_facts
-- What the outputs and inputs of a task's jobs depend on.
SELECT t.task_id, t.status, t.task_type, t.nucleus, t.split_rule, t.event_service, t.prod_source_label,
       t.processing_type,
       coalesce(t.current_priority, 0) AS current_priority
  FROM tasks t
 WHERE t.task_id = ANY(:task_ids::bigint[]) ORDER BY t.task_id;

-- name: insert_transfers
-- Requests to move data, in the order of the lists.
INSERT INTO transfers (task_id, job_id, direction, activity, source_storage, destination_storage, n_files, n_bytes,
                       dataset_ids, status)
SELECT new.task_id, new.job_id, :direction, new.activity, new.source_storage, new.destination_storage, new.n_files,
       new.n_bytes, string_to_array(nullif(new.datasets, ''), ',')::bigint[], 'requested'
  FROM unnest(:task_ids::bigint[], :job_ids::bigint[], :activities::text[], :sources::text[], :destinations::text[],
              :n_files::int[], :n_bytes::bigint[], :datasets::text[])
       WITH ORDINALITY AS new (task_id, job_id, activity, source_storage, destination_storage, n_files, n_bytes,
                               datasets, place)
 ORDER BY new.place
RETURNING transfer_id;

-- name: waiting_transfers
-- Jobs of these that still wait for another transfer.
SELECT DISTINCT job_id FROM transfers WHERE job_id = ANY(:job_ids::bigint[]) AND status IN ('requested', 'active');

-- name: stored_reports
-- Final reports of these jobs.
SELECT job_id, state, report FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]) ORDER BY job_id;

-- name: set_command
-- What the pilot of a live job is told with every reply.
-- done for: COMMANDS
UPDATE jobs SET command = :command WHERE job_id = :job_id AND status = ANY(:allowed::text[]) RETURNING job_id;

-- name: take_back_commands
-- Only these commands, whatever their arguments: what was ordered since stays.
-- done for: COMMANDS
UPDATE jobs SET command = CASE WHEN split_part(command, ' ', 1) = ANY(:commands::text[]) THEN NULL ELSE command END
 WHERE job_id = :job_id AND status = ANY(:allowed::text[]) RETURNING job_id;

-- name: audit
-- Who gave which command, for people.
-- done for: COMMANDS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles::text[], :verb, :target, :outcome, :details::jsonb);
