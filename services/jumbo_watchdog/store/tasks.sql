-- What the jumbo watchdog reads and writes.

-- name: event_service_tasks
-- Live event-service tasks with the events of which no job was thought of (an input counts as used once it is picked),
-- and the ranges that jobs have not processed. Indexes tasks_live, task_files_state, job_sets_open.
SELECT t.task_id, t.use_jumbo, t.current_priority, t.trans_uses, t.site, t.split_rule,
       e.unused_events + p.picked_events AS events_without_range, r.n_ranges
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(greatest(coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0), 0)), 0)::bigint
                  AS unused_events
         FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) e
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS picked_events
         FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id AND d.master_id IS NULL
        WHERE d.task_id = t.task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND f.status = 'picked') p
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(s.n_ready + s.n_processing), 0)::bigint AS n_ranges
         FROM job_sets s WHERE s.task_id = t.task_id AND s.status = 'open') r
 WHERE t.event_service = 1 AND t.status IN ('ready', 'pending', 'scouting', 'scouted', 'running', 'throttled')
 ORDER BY t.task_id;

-- name: switch_jumbo
-- Compare-and-set: only if the task is as it was when the decision was made.
UPDATE tasks SET use_jumbo = :use_jumbo, modification_time = orrery_now()
 WHERE task_id = :task_id AND use_jumbo IS NOT DISTINCT FROM :was
RETURNING task_id;

-- name: log_switch
-- What was switched and why, for people.
INSERT INTO audit_log (caller, verb, target, outcome, details)
VALUES (:caller, :verb, :target, 'done', :details);
