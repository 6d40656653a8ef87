-- name: named_outputs
-- Finished outputs of a task by their names. Index task_files_finished.
SELECT f.file_id, f.dataset_id, d.dataset_name, f.lfn, f.type, coalesce(f.n_events, 0) AS n_events,
       f.out_job_id AS job_id
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.lfn = ANY(:names::text[]) AND f.task_id = :task_id AND f.type = 'output' AND f.status = 'finished'
   AND f.out_job_id IS NOT NULL
 ORDER BY f.file_id;

-- name: finished_outputs
-- The next finished outputs of a task, without those that are deleted after use. Index task_files_state.
SELECT f.file_id, f.dataset_id, d.dataset_name, f.lfn, f.type, coalesce(f.n_events, 0) AS n_events,
       f.out_job_id AS job_id
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE d.task_id = :task_id AND f.type = 'output' AND f.status = 'finished' AND f.out_job_id IS NOT NULL
   AND f.file_id > :after_id AND coalesce(d.attributes ->> 'transient', '') <> 'true'
 ORDER BY f.file_id LIMIT :size::int;

-- name: merged_with
-- Jobs whose unmerged outputs these jobs merged, and jobs that merged outputs of these.
SELECT DISTINCT f.out_job_id AS job_id
  FROM job_files x JOIN task_files f USING (file_id)
 WHERE x.job_id = ANY(:job_ids::bigint[]) AND x.type = 'trn_output' AND f.out_job_id <> x.job_id
UNION
SELECT DISTINCT x.job_id
  FROM task_files f JOIN job_files x USING (file_id)
 WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND f.type = 'trn_output' AND x.job_id <> f.out_job_id
   AND EXISTS (SELECT FROM task_files o WHERE o.out_job_id = x.job_id AND o.status = 'finished');

-- name: outputs_of_jobs
-- What these jobs wrote and finished. Index task_files_producer.
SELECT f.file_id, f.dataset_id, d.dataset_name, f.lfn, f.type, coalesce(f.n_events, 0) AS n_events,
       f.out_job_id AS job_id
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.out_job_id = ANY(:job_ids::bigint[]) AND f.task_id = :task_id AND f.status = 'finished'
   AND f.type = ANY(:types::text[])
 ORDER BY f.file_id;

-- name: jobs_of_dropped_files
-- Jobs of which it is not known any more what they read: it was dropped with its age.
SELECT w.job_id FROM unnest(:job_ids::bigint[]) AS w (job_id)
 WHERE NOT EXISTS (SELECT FROM job_files x WHERE x.job_id = w.job_id) ORDER BY w.job_id;

-- name: inputs_of_jobs
-- Units of input that these jobs processed.
SELECT DISTINCT f.file_id, f.dataset_id, d.dataset_name, f.lfn, d.type, coalesce(f.n_events, 0) AS n_events,
       0::bigint AS job_id
  FROM job_files x JOIN task_files f USING (file_id) JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE x.job_id = ANY(:job_ids::bigint[]) AND f.task_id = :task_id AND d.type = ANY(:types::text[])
   AND f.status = 'finished'
 ORDER BY f.file_id;

-- name: makers_of_files
-- Other tasks that finished outputs of these names, the latest last. Index task_files_finished.
SELECT d.dataset_name, f.lfn, f.task_id
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.lfn = ANY(:names::text[]) AND f.type = 'output' AND f.status = 'finished' AND f.out_job_id IS NOT NULL
   AND f.task_id <> :task_id
 ORDER BY f.task_id;

-- name: set_files
-- Finished files are ready to be used once more, or lost.
UPDATE task_files f
   SET status = :status, max_attempt = greatest(f.max_attempt, f.attempt_nr) + :more::int,
       max_failure = CASE WHEN f.max_failure IS NOT NULL
                          THEN greatest(f.max_failure, f.failed_attempt) + :more::int END
 WHERE f.file_id = ANY(:file_ids::bigint[]) AND f.status = ANY(:allowed::text[])
RETURNING f.file_id, f.dataset_id, coalesce(f.n_events, 0) AS n_events;

-- name: count_recovered
-- The counters of datasets follow the files that were finished and are not any more.
UPDATE task_datasets d
   SET n_files_used = d.n_files_used - r.n_files, n_files_finished = d.n_files_finished - r.n_files,
       n_events_used = CASE WHEN d.type IN ('input', 'pseudo_input', 'pp_input')
                            THEN d.n_events_used - r.n_events ELSE d.n_events_used END,
       modification_time = orrery_now()
  FROM unnest(:dataset_ids::bigint[], :files::bigint[], :events::bigint[]) AS r (dataset_id, n_files, n_events)
 WHERE d.dataset_id = r.dataset_id;

-- name: note_parent
-- A task whose input another one makes again waits for it; one that has a parent keeps it.
UPDATE tasks SET parent_tid = :parent_id
 WHERE task_id = :task_id AND (parent_tid IS NULL OR parent_tid = task_id);

-- name: copy_dataset
-- A further output dataset like one of the task, without files.
WITH old AS (
        SELECT * FROM task_datasets
         WHERE task_id = :task_id AND dataset_name = :name AND type = 'output' ORDER BY dataset_id LIMIT 1),
     new AS (
        INSERT INTO task_datasets (dataset_id, dataset_name, container_name, task_id, state, state_check_time, status,
                                   type, vo, attributes, stream_name, storage_token, destination, scope)
        SELECT :dataset_id, :other, o.container_name, o.task_id, 'open', orrery_now(), 'ready', o.type, o.vo,
               o.attributes, o.stream_name, o.storage_token, o.destination, o.scope
          FROM old o)
SELECT dataset_id AS old_id, scope FROM old;

-- name: move_templates
-- New files get their names as before, in the other dataset.
UPDATE output_templates SET dataset_id = :new_id WHERE dataset_id = :old_id;

-- name: move_unmerged
-- What is merged from now on goes to the other dataset.
UPDATE task_datasets SET template_id = :new_id WHERE task_id = :task_id AND template_id = :old_id;
