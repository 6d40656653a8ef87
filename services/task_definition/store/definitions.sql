-- name: refine_task
-- registered, rerefine or staged -> defined, with the rules that refining found.
UPDATE tasks
   SET status = 'defined', old_status = NULL, error_dialog = NULL, retry_at = NULL, split_rule = :split_rule::jsonb,
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING task_id;

-- name: datasets_of_task
-- All datasets of a task, held until the commit.
SELECT dataset_id, dataset_name, type, stream_name, status, state, master_id, n_files, n_files_to_be_used, n_files_used,
       n_files_finished, n_files_failed, n_events, attributes, container_name
  FROM task_datasets WHERE task_id = :task_id ORDER BY dataset_id FOR NO KEY UPDATE;

-- name: insert_dataset
-- A dataset of a task, before its contents are known.
INSERT INTO task_datasets (dataset_id, dataset_name, container_name, task_id, master_id, provenance_id, state,
                           state_check_time, status, type, vo, attributes, stream_name, storage_token, destination,
                           template_id, scope)
VALUES (:dataset_id, :name, :container, :task_id, :master_id, :provenance_id, :state, orrery_now(), 'defined', :type,
        :vo, :attributes::jsonb, :stream, :token, :destination, :template_id, :scope);

-- name: load_dataset
-- defined or toupdate -> ready, with what was added to its contents.
UPDATE task_datasets
   SET status = 'ready', n_files = n_files + :n_files, n_files_to_be_used = n_files_to_be_used + :n_files_opened,
       n_events = CASE WHEN :n_events::bigint IS NULL THEN n_events ELSE coalesce(n_events, 0) + :n_events END,
       n_events_to_be_used = CASE WHEN :n_events::bigint IS NULL THEN n_events_to_be_used
                                  ELSE coalesce(n_events_to_be_used, 0) + :n_events END,
       n_events_used = CASE WHEN :n_events::bigint IS NULL THEN n_events_used ELSE coalesce(n_events_used, 0) END,
       state = :state, state_check_time = orrery_now(), modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND status = ANY(:allowed::text[]);

-- name: add_to_dataset
-- The same for a dataset that is ready already.
UPDATE task_datasets
   SET n_files = n_files + :n_files, n_files_to_be_used = n_files_to_be_used + :n_files_opened,
       n_events = CASE WHEN :n_events::bigint IS NULL THEN n_events ELSE coalesce(n_events, 0) + :n_events END,
       n_events_to_be_used = CASE WHEN :n_events::bigint IS NULL THEN n_events_to_be_used
                                  ELSE coalesce(n_events_to_be_used, 0) + :n_events END,
       n_events_used = CASE WHEN :n_events::bigint IS NULL THEN n_events_used ELSE coalesce(n_events_used, 0) END,
       state = :state, state_check_time = orrery_now(), modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND status = 'ready';

-- name: ready_dataset
-- An output dataset exists in the catalogue now.
UPDATE task_datasets SET status = 'ready', modification_time = orrery_now()
 WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = ANY(:allowed::text[]);

-- name: insert_pseudo_files
-- One unit for each job of a task without input; the last has what is left of the events.
INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, max_failure, n_events, first_event)
SELECT :dataset_id, :task_id, 'pseudo_lfn_' || lpad(n::text, 8, '0'), 'pseudo_input', 'ready', :max_attempt,
       :max_failure,
       CASE WHEN :n_events::bigint IS NULL THEN :events_per_row
            ELSE least(:events_per_row::bigint, :n_events - (n - 1) * :events_per_row) END,
       :first_event::bigint + (n - 1) * coalesce(:events_per_row::bigint, 0)
  FROM generate_series(1, :n_rows::bigint) AS n ORDER BY n;

-- name: insert_template
-- How the outputs of a dataset are named.
INSERT INTO output_templates (task_id, dataset_id, file_name_template, serial_nr, stream_name, out_type)
VALUES (:task_id, :dataset_id, :file_name_template, :first_serial, :stream, :out_type);

-- name: put_command_lines
-- The command lines of a task's jobs, also if it is defined again.
INSERT INTO job_parameters_templates (task_id, job_parameters_template) VALUES (:task_id, :template::jsonb)
ON CONFLICT (task_id) DO UPDATE SET job_parameters_template = excluded.job_parameters_template;

-- name: input_files_used
-- Distinct files among the units of a task's masters: what the limit nFiles counts.
SELECT count(DISTINCT f.lfn) AS n_files, coalesce(sum(f.n_events), 0)::bigint AS n_events
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type = 'input' AND d.master_id IS NULL;
