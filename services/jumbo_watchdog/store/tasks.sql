-- What the jumbo watchdog reads and writes.

-- name: event_service_tasks
-- Live event-service tasks with the events of which no job was thought of (an input counts as used once it is picked),
-- the ranges that jobs have not processed, and its jumbo jobs. Indexes tasks_event_service, task_files_state, job_sets_open,
-- jumbo_jobs_task.
SELECT t.task_id, t.status, t.use_jumbo, t.current_priority, t.trans_uses, t.trans_home, t.architecture, t.container_name,
       t.site, t.split_rule, e.unused_events + p.picked_events AS events_without_range, e.total_events, e.files_left, e.files_waiting,
       r.n_ranges, r.ready_ranges, j.n_active_jumbo_jobs
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(greatest(coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0), 0)), 0)::bigint
                  AS unused_events,
              coalesce(sum(d.n_events), 0)::bigint AS total_events,
              coalesce(sum(d.n_files - d.n_files_finished - d.n_files_failed), 0)::bigint AS files_left,
              coalesce(sum(d.n_files_waiting), 0)::bigint AS files_waiting
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
       SELECT count(*) AS n_active_jumbo_jobs FROM jumbo_jobs u JOIN jobs j USING (job_id)
        WHERE u.task_id = t.task_id AND u.ended_at IS NULL AND t.use_jumbo IS NOT NULL
          AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled')) j
 WHERE t.event_service = 1 AND t.status IN ('ready', 'pending', 'scouting', 'scouted', 'running', 'throttled')
 ORDER BY t.task_id;

-- name: switch_jumbo
-- Compare-and-set: only if the task is as it was when the decision was made, and nobody works on it now.
WITH held AS MATERIALIZED (
    SELECT task_id FROM tasks WHERE task_id = :task_id AND use_jumbo IS NOT DISTINCT FROM :was
       FOR NO KEY UPDATE SKIP LOCKED)
UPDATE tasks t SET use_jumbo = :use_jumbo, modification_time = orrery_now()
  FROM held WHERE t.task_id = held.task_id
RETURNING t.task_id;

-- name: kick
-- Tasks whose jumbo jobs are all gone lack some, by compare-and-set: they are made anew. One that somebody works on now has
-- its turn at the next look.
WITH held AS MATERIALIZED (
    SELECT task_id FROM tasks
     WHERE task_id = ANY(:task_ids::bigint[]) AND use_jumbo IN ('R', 'P') AND status IN ('pending', 'running')
     ORDER BY task_id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE tasks t SET use_jumbo = 'L', modification_time = orrery_now()
  FROM held WHERE t.task_id = held.task_id
RETURNING t.task_id;

-- name: note_reasons
-- Why tasks have jumbo jobs or not, and what was switched now, for people. Rows of the tasks stay as they are.
INSERT INTO jumbo_reasons AS r (task_id, reason, switched, switched_at)
SELECT task_id, reason, switched, CASE WHEN switched IS NOT NULL THEN orrery_now() END
  FROM unnest(:task_ids::bigint[], :reasons::text[], :switched::text[]) AS w (task_id, reason, switched)
ON CONFLICT (task_id) DO UPDATE
SET reason = excluded.reason, looked_at = excluded.looked_at, switched = coalesce(excluded.switched, r.switched),
    switched_at = coalesce(excluded.switched_at, r.switched_at)
WHERE r.reason IS DISTINCT FROM excluded.reason OR excluded.switched IS NOT NULL;

-- name: forget_reasons
-- Of tasks that are not looked at any more.
DELETE FROM jumbo_reasons WHERE task_id <> ALL(:task_ids::bigint[]);

-- name: log_switch
-- What was switched and why, for people.
INSERT INTO audit_log (caller, verb, target, outcome, details)
VALUES (:caller, :verb, :target, 'done', :details);
