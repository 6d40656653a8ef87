-- Tasks that a gate of job generation holds and that could go on at once.
CREATE VIEW waiting_at_gates AS
SELECT t.task_id, t.gshare, t.resource_type, t.work_queue_id, t.current_priority, t.user_name, t.working_group, w.since,
       w.n_jobs, w.woken_at
  FROM tasks t JOIN waits w USING (task_id)
 WHERE t.status IN ('ready', 'scouting', 'running') AND t.retry_at > orrery_now()
   AND w.kind = 'share' AND w.placed_at IS NULL AND w.retry_at > orrery_now()
   AND (w.not_before IS NULL OR w.not_before <= orrery_now())
   AND NOT EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered')
   AND EXISTS (SELECT FROM task_datasets d WHERE d.task_id = t.task_id AND d.master_id IS NULL
                  AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.status = 'ready'
                  AND least(d.n_files_to_be_used, d.n_files) > d.n_files_used
                  AND EXISTS (SELECT FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.status = 'ready'));
