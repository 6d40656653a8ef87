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

-- name: own_wait
-- Since when a task waits at its gate, and whether it was woken. Index waits_pkey.
SELECT since, woken_at IS NOT NULL AS is_woken FROM waits
 WHERE task_id = :task_id AND kind = 'share' AND placed_at IS NULL;

-- name: ahead_in_share
-- Tasks of a share and resource type that wait at this gate (cap) and go before another task: those with more priority,
-- and of equal ones those whose group was served less in this cycle, or as often and that wait longer. If the first of a
-- group goes before, then any that is older than the other task does, too; so nobody has to be ranked. A woken task of
-- which nothing was heard for a while holds nobody back, and none that was woken holds another such: the gate has room
-- for all that it wakes. Index tasks_generating, the most urgent first: the gate is asked by CASE, which the planner takes
-- for true half the time, where it takes equality of an expression for rare and sorts all that wait.
SELECT task_id, current_priority, owner, since, n_jobs FROM (
    SELECT v.*, coalesce(CASE :group_by::text WHEN 'workingGroup' THEN v.working_group ELSE v.user_name END, '') AS owner
      FROM waiting_at_gates v
     WHERE v.gshare = :gshare AND v.resource_type = :resource_type
       AND CASE coalesce(v.cap, :cap) WHEN :cap::text THEN true ELSE false END
       AND v.current_priority >= :at_least::int AND v.current_priority < :below::int) held
 WHERE task_id <> :task_id
   AND (woken_at IS NULL OR NOT :is_woken::boolean AND woken_at > orrery_now() - make_interval(secs => :heard_within_s::float8))
   AND (current_priority > :priority::int
        OR (coalesce((:times_served::int[])[array_position(:groups::text[], owner::text)], 0), since, task_id)
         < (:served::int, :since::timestamptz, :task_id::bigint))
 ORDER BY current_priority DESC LIMIT :at_most;

-- name: ahead_in_work_queue
-- As ahead_in_share, at a work queue that is throttled by itself. Index tasks_of_work_queues.
SELECT task_id, current_priority, owner, since, n_jobs FROM (
    SELECT v.*, coalesce(CASE :group_by::text WHEN 'workingGroup' THEN v.working_group ELSE v.user_name END, '') AS owner
      FROM waiting_at_gates v
     WHERE v.work_queue_id = :work_queue_id AND :resource_type::text IN (v.resource_type, '*')
       AND CASE coalesce(v.cap, :cap) WHEN :cap::text THEN true ELSE false END
       AND v.current_priority >= :at_least::int AND v.current_priority < :below::int) held
 WHERE task_id <> :task_id
   AND (woken_at IS NULL OR NOT :is_woken::boolean AND woken_at > orrery_now() - make_interval(secs => :heard_within_s::float8))
   AND (current_priority > :priority::int
        OR (coalesce((:times_served::int[])[array_position(:groups::text[], owner::text)], 0), since, task_id)
         < (:served::int, :since::timestamptz, :task_id::bigint))
 ORDER BY current_priority DESC LIMIT :at_most;

-- name: use_of_shares
-- Every share with its running and queued jobs.
SELECT s.gshare, s.value, s.parent, s.vo,
       greatest(0, coalesce(sum(q.n_jobs) FILTER (WHERE q.status IN ('running', 'sent')), 0))::bigint AS running,
       greatest(0, coalesce(sum(q.n_jobs) FILTER (WHERE q.status IN ('defined', 'assigned', 'activated', 'starting')), 0)
       )::bigint AS queued
  FROM shares s LEFT JOIN queue_statistics q USING (gshare) GROUP BY s.gshare ORDER BY s.gshare;
