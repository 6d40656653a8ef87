-- name: renew_task
-- A retried task starts afresh; its retries are counted.
-- done for: COMMANDS
UPDATE tasks SET start_time = NULL, end_time = NULL, frozen_time = NULL, attempt_nr = attempt_nr + 1,
       current_priority = CASE WHEN :keep_priority THEN current_priority ELSE coalesce(task_priority, 0) END,
       gshare = coalesce(:gshare, gshare)
 WHERE task_id = :task_id;

-- name: reset_memory
-- Memory as the parameters say it: what scouts measured counts no more.
-- done for: COMMANDS
UPDATE tasks SET ram_count = :ram_count, ram_unit = :ram_unit, measured_units = array_remove(measured_units, 'ram_count')
 WHERE task_id = :task_id;

-- name: retry_facts
-- What the limits of retries are compared with.
SELECT t.attempt_nr AS n_retries, coalesce(j.n_finished, 0) AS n_jobs_finished, coalesce(j.n_failed, 0) AS n_jobs_failed,
       coalesce((SELECT max(f.attempt_nr) FROM task_datasets d JOIN task_files f USING (dataset_id)
                  WHERE d.task_id = t.task_id AND d.master_id IS NULL
                    AND d.type IN ('input', 'pseudo_input', 'pp_input')), 0) AS most_attempts
  FROM tasks t LEFT JOIN task_job_counts j USING (task_id) WHERE t.task_id = :task_id;

-- name: usage_of_jobs
-- HEP score hours of the jobs of a task that finished and failed, by the benchmark of a core at each queue, and how much
-- of the time that they had the newest 1000 that finished used. Indexes jobs_task, jobs_archive_task.
WITH ended AS MATERIALIZED (
        SELECT job_id, status, queue, core_count * extract(epoch FROM end_time - start_time)::float8 AS core_s
          FROM jobs WHERE task_id = :task_id AND status IN ('finished', 'failed')
        UNION ALL
        SELECT job_id, status, queue, core_count * extract(epoch FROM end_time - start_time)::float8
          FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], ARRAY['finished', 'failed'])),
     told AS (
        SELECT sum((r.report ->> 'cpu_consumption_time')::float8) AS cpu_s, sum(e.core_s) AS core_s
          FROM (SELECT job_id, core_s FROM ended WHERE status = 'finished' AND core_s > 0
                 ORDER BY job_id DESC LIMIT 1000) e
          JOIN job_reports r USING (job_id) WHERE jsonb_typeof(r.report -> 'cpu_consumption_time') = 'number')
SELECT coalesce(sum(h.hours) FILTER (WHERE e.status = 'finished'), 0)::float8 AS finished_hours,
       coalesce(sum(h.hours) FILTER (WHERE e.status = 'failed'), 0)::float8 AS failed_hours,
       (SELECT 100 * cpu_s / nullif(core_s, 0) FROM told) AS cpu_efficiency_percent
  FROM ended e LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06)
    ON q.queue = e.queue
 CROSS JOIN LATERAL (
       SELECT greatest(e.core_s, 0) * coalesce(q.core_power_hs06, :usual_hs06::float8) / 3600 AS hours) h;

-- name: change_task
-- Parameters that a retry or a reassignment may change. What is stated now counts as measured no more.
-- done for: COMMANDS
UPDATE tasks
   SET split_rule = :split_rule::jsonb, site = :site, cloud = :cloud, nucleus = :nucleus,
       measured_rules = ARRAY(SELECT unnest(measured_rules) EXCEPT SELECT unnest(:stated::text[]) ORDER BY 1)
 WHERE task_id = :task_id;

-- name: change_needs
-- What an operator sets while the task lives, in the unit that the task states; it counts as measured no more.
-- done for: COMMANDS
UPDATE tasks
   SET ram_count = CASE :column::text WHEN 'ram_count' THEN :value::bigint ELSE ram_count END,
       ram_unit = CASE :column::text WHEN 'ram_count' THEN :unit::text ELSE ram_unit END,
       walltime = CASE :column::text WHEN 'walltime' THEN :value::bigint ELSE walltime END,
       walltime_unit = CASE :column::text WHEN 'walltime' THEN :unit::text ELSE walltime_unit END,
       cpu_time = CASE :column::text WHEN 'cpu_time' THEN :value::bigint ELSE cpu_time END,
       cpu_time_unit = CASE :column::text WHEN 'cpu_time' THEN :unit::text ELSE cpu_time_unit END,
       core_count = CASE :column::text WHEN 'core_count' THEN :value::bigint ELSE core_count END,
       measured_units = array_remove(measured_units, :column)
 WHERE task_id = :task_id;

-- name: change_event_service
-- How its events, or the copies of its jobs, are processed from now on.
-- done for: COMMANDS
UPDATE tasks SET event_service = :event_service, use_jumbo = :use_jumbo WHERE task_id = :task_id;

-- name: reach_of_rules
-- Units of the master input of a task, and those that are in no job yet. Index task_datasets_task.
SELECT coalesce(sum(d.n_files), 0)::bigint AS n_units,
       greatest(coalesce(sum(d.n_files - d.n_files_used), 0), 0)::bigint AS n_unused
  FROM task_datasets d
 WHERE d.task_id = :task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.status <> 'removed';

-- name: take_unstaged
-- Input on tape counts as if it were on disk, from now on.
-- done for: COMMANDS
UPDATE tasks SET takes_unstaged = true WHERE task_id = :task_id;

-- name: permissions_of_owner
-- What the owner of a task may do beside others.
-- told by: nobody; they decide what an owner may order
SELECT coalesce(u.grid_pref, '') AS grid_pref, coalesce(t.working_group, '') AS working_group
  FROM tasks t LEFT JOIN LATERAL orrery_account(t.user_name, t.vo) u ON true WHERE t.task_id = :task_id;

-- name: change_priority
-- Set by hand: a retry keeps it.
-- done for: COMMANDS
UPDATE tasks SET task_priority = :priority, current_priority = :priority, modification_time = orrery_now()
 WHERE task_id = :task_id;

-- name: change_share
-- Set by hand.
-- done for: COMMANDS
UPDATE tasks SET gshare = :gshare, modification_time = orrery_now() WHERE task_id = :task_id;

-- name: switch_jumbo
-- Jumbo jobs of a task: it waits for the first one (W) where it had none or they were off (D), or they are off.
-- done for: COMMANDS
UPDATE tasks SET use_jumbo = CASE WHEN :wanted::boolean THEN 'W' ELSE 'D' END
 WHERE task_id = :task_id
   AND CASE WHEN :wanted::boolean THEN coalesce(use_jumbo, 'D') = 'D' ELSE coalesce(use_jumbo, 'D') <> 'D' END
RETURNING task_id;

-- name: change_parameters
-- The submitted parameters as a retry or a reassignment left them.
-- done for: COMMANDS
UPDATE task_parameters SET task_parameters = :parameters::jsonb WHERE task_id = :task_id;

-- name: note_change
-- Who else than the submitter changed the parameters last.
-- done for: COMMANDS
UPDATE tasks SET changed_by = :by WHERE task_id = :task_id AND submitted_by IS DISTINCT FROM :by RETURNING task_id;

-- name: note_hold
-- What production decided about the task; NULL where its owner decides again.
-- done for: COMMANDS
UPDATE tasks SET hold = :hold, held_until = :held_until
 WHERE task_id = :task_id AND (hold, held_until) IS DISTINCT FROM (:hold::text, :held_until::timestamptz);

-- name: attempts_of_units
-- The most attempts that a unit of its input has or may have.
-- told by: nobody; it decides what a command may raise
SELECT coalesce(max(greatest(f.max_attempt, f.attempt_nr)), 0) FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input');

-- name: raise_task_attempts
-- Units that are added later may be tried as often as those of now.
-- done for: COMMANDS
UPDATE tasks SET max_attempt = max_attempt + :more::int WHERE task_id = :task_id;

-- name: reopen_datasets
-- Datasets of a task that goes on take files again.
UPDATE task_datasets SET status = 'ready', frozen_time = NULL, modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING dataset_name, type, scope, container_name, coalesce(attributes ->> 'transient' = 'true', false) AS is_transient;

-- name: note_killer
-- Who killed a task by the right of its owner alone; NULL: somebody else did.
-- done for: COMMANDS
UPDATE tasks SET killed_by_user = :user_name WHERE task_id = :task_id;

-- name: killer
-- Who killed a task by the right of its owner alone.
SELECT killed_by_user FROM tasks WHERE task_id = :task_id;

-- name: closed_input
-- Input that other VOs no longer open for that of a task.
SELECT d.dataset_name FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
 WHERE d.task_id = :task_id AND d.type = 'input' AND d.status <> 'removed' AND NOT catalogue.may_be_read(c, d.vo)
 ORDER BY d.dataset_name;

-- name: is_half_read
-- Whether an aborted task has input that was not read yet.
SELECT EXISTS (SELECT FROM input_readings r JOIN tasks t USING (task_id)
                WHERE r.task_id = :task_id AND NOT r.is_read AND t.status = 'aborted');

-- name: files_to_do
-- Units that are not processed yet.
SELECT count(*) FROM task_datasets d JOIN task_files f USING (dataset_id)
 WHERE d.task_id = :task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
   AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing');
