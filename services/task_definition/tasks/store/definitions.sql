-- name: refine_task
-- registered, rerefine or staged -> defined, with the rules that refining found; what was measured since stays.
UPDATE tasks
   SET status = 'defined', old_status = NULL, error_dialog = NULL, retry_at = NULL,
       split_rule = (:split_rule::jsonb - measured_rules)
                    || coalesce((SELECT jsonb_object_agg(m.name, split_rule -> m.name)
                                   FROM unnest(measured_rules) AS m (name) WHERE split_rule ? m.name), '{}'),
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING task_id;

-- name: datasets_of_task
-- All datasets of a task, held until the commit.
SELECT dataset_id, dataset_name, type, stream_name, status, state, master_id, n_files, n_files_to_be_used, n_files_used,
       n_files_finished, n_files_failed, n_events, attributes, container_name, scope
  FROM task_datasets WHERE task_id = :task_id ORDER BY dataset_id FOR NO KEY UPDATE;

-- name: insert_dataset
-- A dataset of a task, before its contents are known.
INSERT INTO task_datasets (dataset_id, dataset_name, container_name, task_id, master_id, provenance_id, state,
                           state_check_time, status, type, vo, attributes, stream_name, storage_token, destination,
                           template_id, scope)
VALUES (:dataset_id, :name, :container, :task_id, :master_id, :provenance_id, :state, orrery_now(), 'defined', :type,
        :vo, :attributes::jsonb, :stream, :token, :destination, :template_id, :scope);

-- name: first_master
-- The dataset that the jobs of a task are made of: what others follow, and outputs come from (JEDI: PROVENANCEID).
SELECT min(dataset_id) FROM task_datasets
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input') AND master_id IS NULL
   AND status <> 'removed';

-- name: look_again
-- Input that was looked at before is read again.
UPDATE task_datasets SET status = 'toupdate', modification_time = orrery_now()
 WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = ANY(:allowed::text[]);

-- name: take_out
-- Datasets that a task no longer has; jobs that took files of one keep it in.
UPDATE task_datasets
   SET status = 'removed', n_files = 0, n_files_to_be_used = 0, n_events = CASE WHEN n_events IS NULL THEN NULL ELSE 0 END,
       state_check_expiration = NULL, modification_time = orrery_now()
 WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = ANY(:allowed::text[]) AND n_files_used = 0;

-- name: dataset_loaded
-- defined or toupdate -> ready, with what may be used of it; the version is that of before it was read, or unknown where
-- jobs have units that the catalogue lost or changed.
UPDATE task_datasets d
   SET status = 'ready', n_files_to_be_used = least(d.n_files, d.n_files_to_be_used + n.opened),
       n_events_to_be_used = d.n_events,
       n_events_used = CASE WHEN d.n_events IS NULL THEN d.n_events_used ELSE coalesce(d.n_events_used, 0) END,
       state = n.state, n_older = nullif(n.older, 0), n_not_made = nullif(n.not_made, 0),
       state_check_time = orrery_now(), modification_time = orrery_now(),
       state_check_expiration = orrery_now() + make_interval(secs => :checked_for_s::float8),
       contents_version = (SELECT l.contents_version FROM dataset_readings l
                            WHERE l.dataset_id = d.dataset_id AND NOT l.has_owned)
  FROM unnest(:dataset_ids::bigint[], :opened::bigint[], :states::text[], :older::bigint[], :not_made::bigint[])
       AS n (dataset_id, opened, state, older, not_made)
 WHERE d.dataset_id = n.dataset_id AND d.status = ANY(:allowed::text[]);

-- name: put_off
-- Input that cannot be used now; it is looked at again when the catalogue changed it.
UPDATE task_datasets d
   SET status = 'pending', state_check_time = orrery_now(), modification_time = orrery_now(),
       state_check_expiration = orrery_now() + make_interval(secs => :checked_for_s::float8),
       state = coalesce((SELECT c.state FROM catalogue.datasets c WHERE c.name = d.dataset_name), d.state),
       contents_version = (SELECT l.contents_version FROM dataset_readings l
                            WHERE l.dataset_id = d.dataset_id AND NOT l.has_owned)
 WHERE d.dataset_id = ANY(:dataset_ids::bigint[]) AND d.status = ANY(:allowed::text[]);

-- name: unknown_inputs
-- Input datasets that the catalogue does not know any more, or that were closed to the VO of the task. Index task_datasets_task.
SELECT d.dataset_id FROM task_datasets d
 WHERE d.task_id = :task_id AND d.type = 'input'
   AND d.status <> 'removed' AND NOT EXISTS (
       SELECT FROM catalogue.datasets c WHERE c.name = d.dataset_name AND catalogue.may_be_read(c, d.vo)) ORDER BY d.dataset_id;

-- name: break_datasets
-- Input that can never be used.
UPDATE task_datasets
   SET status = 'broken', state_check_expiration = NULL, frozen_time = orrery_now(), modification_time = orrery_now()
 WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = ANY(:allowed::text[]);

-- name: break_useless
-- Input of which every file is lost or broken. Index task_files_state.
UPDATE task_datasets d
   SET status = 'broken', state_check_expiration = NULL, frozen_time = orrery_now(), modification_time = orrery_now()
 WHERE d.dataset_id = ANY(:dataset_ids::bigint[]) AND d.status = ANY(:allowed::text[])
   AND NOT EXISTS (SELECT FROM task_files f WHERE f.dataset_id = d.dataset_id
                      AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing', 'finished',
                                       'failed'));

-- name: fail_datasets
-- All that a broken task has besides.
UPDATE task_datasets
   SET status = 'failed', state_check_expiration = NULL, frozen_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[]);

-- name: ready_dataset
-- An output dataset exists in the catalogue now.
UPDATE task_datasets SET status = 'ready', modification_time = orrery_now()
 WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = ANY(:allowed::text[]);

-- name: insert_named_files
-- Files that a task lists by physical name, in its order; the pilot does not look for them.
INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, max_failure, n_events, first_event)
SELECT :dataset_id, :task_id, n.lfn, 'pseudo_input', 'ready', :max_attempt, :max_failure, n.n_events,
       :first_event::bigint + coalesce(sum(n.n_events) OVER (
           ORDER BY n.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
  FROM unnest(:names::text[], :events::bigint[]) WITH ORDINALITY AS n (lfn, n_events, place) ORDER BY n.place;

-- name: insert_template
-- How the outputs of a dataset are named.
INSERT INTO output_templates (task_id, dataset_id, file_name_template, serial_nr, stream_name, out_type)
VALUES (:task_id, :dataset_id, :file_name_template, :first_serial, :stream, :out_type);

-- name: put_command_lines
-- The command lines of a task's jobs, also if it is defined again.
INSERT INTO job_parameters_templates (task_id, job_parameters_template) VALUES (:task_id, :template::jsonb)
ON CONFLICT (task_id) DO UPDATE SET job_parameters_template = excluded.job_parameters_template;
