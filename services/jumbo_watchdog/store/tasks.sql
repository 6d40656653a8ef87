-- What the jumbo watchdog reads and writes.

-- name: event_service_tasks
-- Live event-service tasks with the events they have left. Index tasks_live.
SELECT t.task_id, t.use_jumbo, t.current_priority, t.trans_uses, t.site, t.split_rule, e.remaining_events
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(greatest(coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0), 0)), 0)::bigint
                  AS remaining_events
         FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) e
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
