-- name: lock_gate
-- Who offers input for a share or work queue and resource type holds its gate until the end of the transaction.
SELECT counted_at, by_status, n_tasks, n_super_high, by_group FROM generation_gates
 WHERE gshare = :gshare AND resource_type = :resource_type AND work_queue_id = :work_queue_id FOR NO KEY UPDATE;

-- name: add_gate
-- A gate that nobody came to before.
INSERT INTO generation_gates (gshare, resource_type, work_queue_id) VALUES (:gshare, :resource_type, :work_queue_id)
ON CONFLICT DO NOTHING;

-- name: keep_gate
-- What was counted, offered and served, for whoever comes next.
UPDATE generation_gates
   SET counted_at = :counted_at, by_status = :by_status, n_tasks = :n_tasks, n_super_high = :n_super_high,
       by_group = :by_group
 WHERE gshare = :gshare AND resource_type = :resource_type AND work_queue_id = :work_queue_id;

-- name: cycle_of_gate
-- Where the cycle of a gate stands, for who only asks.
SELECT n_tasks, n_super_high, by_group FROM generation_gates
 WHERE gshare = :gshare AND resource_type = :resource_type AND work_queue_id = :work_queue_id;

-- name: waiting_at_gate
-- Tasks that a gate holds and that could go on at once, and the one that asks: the first of each kind of priority, the
-- groups of equal priority in turn. A woken task of which nothing was heard for a while holds nobody back, and
-- none that was woken holds another such: the gate has room for all that it wakes. Who has less priority is not asked
-- for, but where the cycle may put it before one of super-high priority. Indexes waits_changed, task_files_state.
WITH asking AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM waits
                    WHERE task_id = :task_id AND kind = 'share' AND woken_at IS NOT NULL) AS is_woken)
SELECT task_id, priority, owner, since, n_jobs FROM (
    SELECT *, row_number() OVER (PARTITION BY is_super_high ORDER BY priority DESC, turn, since, task_id) AS place
      FROM (
        SELECT *, row_number() OVER (PARTITION BY priority, owner ORDER BY since, task_id) AS turn FROM (
            SELECT t.task_id, t.current_priority AS priority, t.current_priority >= :super_high::int AS is_super_high,
                   coalesce(CASE :group_by::text WHEN 'workingGroup' THEN t.working_group ELSE t.user_name END, '')
                       AS owner,
                   w.since, w.n_jobs
              FROM waits w JOIN tasks t USING (task_id)
             WHERE w.kind = 'share' AND w.placed_at IS NULL
               AND CASE WHEN :work_queue_id::int = 0
                        THEN t.gshare = :gshare AND t.resource_type = :resource_type::text
                             AND (t.work_queue_id IS NULL OR t.work_queue_id <> ALL(:resource_queues::int[]))
                        ELSE t.work_queue_id = :work_queue_id::int AND :resource_type::text IN (t.resource_type, '*')
                   END
               AND (t.task_id = :task_id
                    OR (:priority::int >= :super_high::int OR t.current_priority >= :priority::int)
                   AND (w.woken_at IS NULL OR NOT (SELECT is_woken FROM asking))
                   AND w.retry_at > orrery_now() AND t.retry_at > orrery_now()
                   AND (w.not_before IS NULL OR w.not_before <= orrery_now())
                   AND (w.woken_at IS NULL OR w.woken_at > orrery_now() - make_interval(secs => :heard_within_s::float8))
                   AND t.status IN ('ready', 'scouting', 'running')
                   AND NOT EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered')
                   AND EXISTS (SELECT FROM task_datasets d WHERE d.task_id = t.task_id AND d.master_id IS NULL
                                  AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.status = 'ready'
                                  AND least(d.n_files_to_be_used, d.n_files) > d.n_files_used
                                  AND EXISTS (SELECT FROM task_files f
                                               WHERE f.dataset_id = d.dataset_id AND f.status = 'ready')))) held
        ) in_groups) ranked
 WHERE place <= :n_tasks OR task_id = :task_id ORDER BY task_id;

-- name: use_of_shares
-- Every share with its running and queued jobs.
SELECT s.gshare, s.value, s.parent, s.vo,
       greatest(0, coalesce(sum(q.n_jobs) FILTER (WHERE q.status IN ('running', 'sent')), 0))::bigint AS running,
       greatest(0, coalesce(sum(q.n_jobs) FILTER (WHERE q.status IN ('defined', 'assigned', 'activated', 'starting')), 0)
       )::bigint AS queued
  FROM shares s LEFT JOIN queue_statistics q USING (gshare) GROUP BY s.gshare ORDER BY s.gshare;
