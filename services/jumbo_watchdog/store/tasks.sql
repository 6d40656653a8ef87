-- What the jumbo watchdog reads and writes.

-- name: event_service_tasks
-- Live event-service tasks with the events of which no job was thought of (an input counts as used once it is picked),
-- the ranges that jobs have not processed, and its jumbo jobs. Indexes tasks_event_service, task_files_state, job_sets_open,
-- jobs_task.
SELECT t.task_id, t.status, t.use_jumbo, t.current_priority, t.trans_uses, t.trans_home, t.architecture, t.container_name,
       t.site, t.split_rule, e.unused_events + p.picked_events AS events_without_range, e.total_events, e.files_left,
       r.n_ranges, r.ready_ranges, j.n_active_jumbo_jobs
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(greatest(coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0), 0)), 0)::bigint
                  AS unused_events,
              coalesce(sum(d.n_events), 0)::bigint AS total_events,
              coalesce(sum(d.n_files - d.n_files_finished - d.n_files_failed), 0)::bigint AS files_left
         FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) e
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS picked_events
         FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id AND d.master_id IS NULL
        WHERE d.task_id = t.task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND f.status = 'picked') p
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(s.n_ready + s.n_processing), 0)::bigint AS n_ranges,
              coalesce(sum(s.n_ready), 0)::bigint AS ready_ranges
         FROM job_sets s WHERE s.task_id = t.task_id AND s.status = 'open') r
  CROSS JOIN LATERAL (
       SELECT count(*) AS n_active_jumbo_jobs FROM jobs j
        WHERE j.task_id = t.task_id AND j.job_type = 'jumbo' AND t.use_jumbo IS NOT NULL
          AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled')) j
 WHERE t.event_service = 1 AND t.status IN ('ready', 'pending', 'scouting', 'scouted', 'running', 'throttled')
 ORDER BY t.task_id;

-- name: switch_jumbo
-- Compare-and-set: only if the task is as it was when the decision was made.
UPDATE tasks SET use_jumbo = :use_jumbo, modification_time = orrery_now()
 WHERE task_id = :task_id AND use_jumbo IS NOT DISTINCT FROM :was
RETURNING task_id;

-- name: kick
-- Tasks whose jumbo jobs are all gone lack some, by compare-and-set: they are made anew.
UPDATE tasks SET use_jumbo = 'L', modification_time = orrery_now()
 WHERE task_id = ANY(:task_ids::bigint[]) AND use_jumbo IN ('R', 'P') AND status IN ('pending', 'running')
RETURNING task_id;

-- name: note_reasons
-- Why tasks have jumbo jobs or not, for people.
UPDATE tasks t SET jumbo_reason = w.reason
  FROM unnest(:task_ids::bigint[], :reasons::text[]) AS w (task_id, reason)
 WHERE t.task_id = w.task_id AND t.jumbo_reason IS DISTINCT FROM w.reason;

-- name: log_switch
-- What was switched and why, for people.
INSERT INTO audit_log (caller, verb, target, outcome, details)
VALUES (:caller, :verb, :target, 'done', :details);
