-- name: end_facts
-- Sums over the master inputs of a task.
SELECT c.n_files, c.n_files_finished, c.permille,
       EXISTS (SELECT FROM task_datasets WHERE task_id = :task_id AND type = 'input' AND master_id IS NULL
                                            AND state = 'open' AND status <> 'removed') AS input_open,
       EXISTS (SELECT FROM job_parameters_templates WHERE task_id = :task_id) AS is_defined,
       EXISTS (SELECT FROM task_datasets WHERE task_id = :task_id AND type = 'pp_input'
                                            AND status <> 'removed') AS has_only_preprocessing
  FROM orrery_completeness(:task_id) c;

-- name: why_left_out
-- Why input of a task was given up that no job could ever be made of, as the last decision about it says.
SELECT reason FROM generation_history WHERE task_id = :task_id AND numbers ? 'left_out'
 ORDER BY decision_id DESC LIMIT 1;

-- name: work_left
-- Whether jobs of the task are not final, or ended without having been counted, or a chunk is being brokered.
SELECT EXISTS (SELECT FROM jobs WHERE task_id = :task_id
                  AND (status <> ALL(:final::text[]) OR results_applied_at IS NULL)) AS jobs,
       EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:queued::text[])) AS queued_jobs,
       EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:on_node::text[])) AS on_node_jobs,
       EXISTS (SELECT FROM chunks WHERE task_id = :task_id AND status = 'offered') AS chunks;

-- name: ended_jobs
-- How many jobs of a task ended well and how many did not.
SELECT n_finished, n_failed FROM task_job_counts WHERE task_id = :task_id;

-- name: counted_so_far
-- Files of the masters of a task, and how many of them are processed, as they are counted now.
SELECT coalesce(sum(n_files), 0)::bigint AS n_files, coalesce(sum(n_files_finished), 0)::bigint AS n_files_finished
  FROM task_datasets WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input')
   AND type <> 'pp_input' AND status <> 'removed'
   AND (master_id IS NULL OR master_id = dataset_id);

-- name: told_so_far
-- What people see of a task's progress, and the jobs that it is counted by, without waiting for who changes the task.
-- told by: nobody; it decides what is told
SELECT t.status, t.progress, t.failure_rate, coalesce(c.n_finished, 0) AS n_finished, coalesce(c.n_failed, 0) AS n_failed,
       orrery_is_analysis(t.task_type, t.prod_source_label) AS is_analysis
  FROM tasks t LEFT JOIN task_job_counts c USING (task_id) WHERE t.task_id = :task_id;

-- name: note_progress
-- What people see of a task's progress; a row that would not change is not written.
UPDATE tasks SET progress = :progress, failure_rate = :failure_rate, assessment_time = orrery_now(),
       modification_time = orrery_now()
 WHERE task_id = :task_id AND (progress, failure_rate) IS DISTINCT FROM (:progress::int, :failure_rate::int);

-- name: hasten_task
-- A task near its end goes before others; what it was submitted with stays known for a retry.
UPDATE tasks SET current_priority = greatest(current_priority, :priority), gshare = :gshare,
       modification_time = orrery_now()
 WHERE task_id = :task_id;

-- name: limit_to_site
-- The one queue that a task goes to from now on; NULL: any.
UPDATE tasks SET site = :site, modification_time = orrery_now() WHERE task_id = :task_id;

-- name: change_rules
-- Rules of a task that the system sets: its next jobs follow them.
UPDATE tasks SET split_rule = split_rule || :rules::jsonb, modification_time = orrery_now() WHERE task_id = :task_id;

-- name: close_dataset
-- A dataset reaches its final state, with the files it has.
UPDATE task_datasets
   SET status = :status, n_files = :n_files, frozen_time = orrery_now(), modification_time = orrery_now(),
       state_check_expiration = NULL
 WHERE dataset_id = :dataset_id AND status = ANY(:allowed::text[]);

-- name: ends_to_settle
-- Tasks on their way out, or prepared, that nobody moved for a while: who has waited longest first, after those that the
-- last look ended with. Jobs of a finishing task may run for days; it hides none behind it.
SELECT state_change_time, task_id FROM tasks
 WHERE status IN ('aborting', 'toabort', 'finishing', 'passed', 'prepared', 'tobroken', 'reassigning')
   AND state_change_time < orrery_now() - make_interval(secs => :older_than_s::double precision)
   AND (:after_time::timestamptz IS NULL
        OR (state_change_time, task_id) > (:after_time::timestamptz, :after_task::bigint))
 ORDER BY state_change_time, task_id LIMIT :at_most::int;

-- name: datasets_to_close
-- All datasets of a task, held until the commit.
SELECT dataset_id, dataset_name, type, status, master_id, n_files, n_files_finished, n_files_failed,
       coalesce(attributes ->> 'transient' = 'true', false) AS is_transient
  FROM task_datasets WHERE task_id = :task_id ORDER BY dataset_id FOR NO KEY UPDATE;

-- name: outputs_not_kept
-- Files that were registered before their job failed or was killed after all, or that were lost: another attempt
-- produced them under other names. The log of such a job is kept, for people.
SELECT d.dataset_name, f.lfn
  FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND f.status IN ('failed', 'cancelled', 'nooutput', 'lost')
   AND NOT (f.status IN ('failed', 'cancelled') AND d.type IN ('log', 'trn_log')
            AND EXISTS (SELECT FROM job_reports r WHERE r.job_id = f.out_job_id AND r.report -> 'outputs' ? f.lfn))
 ORDER BY d.dataset_id, f.file_id;

-- name: written_by_others
-- Which of these datasets another task writes that has not ended.
SELECT DISTINCT d.dataset_name FROM task_datasets d JOIN tasks t USING (task_id)
 WHERE d.dataset_name = ANY(:names::text[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND d.task_id <> :task_id AND t.status <> ALL(:over::text[]);
