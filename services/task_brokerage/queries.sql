-- name: assigning_task(task_id)^
-- A task that still waits for a nucleus, with that of its parent.
SELECT t.task_id, t.vo, t.prod_source_label, t.task_type, t.processing_type, t.working_group, t.gshare, t.user_name,
       t.resource_type, t.current_priority, t.site, t.cloud, t.split_rule, t.core_count, t.ram_count, t.ram_unit,
       t.base_ram_count, t.out_disk_count, t.out_disk_unit, t.work_disk_count, t.work_disk_unit, t.cpu_time,
       t.cpu_time_unit, t.cpu_efficiency, t.base_walltime, t.io_intensity, t.io_intensity_unit, t.disk_io,
       t.disk_io_unit, t.ip_connectivity, t.parent_tid, t.architecture, t.container_name, t.trans_uses, t.trans_home,
       t.event_service, p.nucleus AS parent_nucleus
FROM tasks t
LEFT JOIN tasks p ON p.task_id = t.parent_tid AND t.parent_tid <> t.task_id
WHERE t.task_id = :task_id AND t.status = 'assigning'
FOR UPDATE OF t;

-- name: remaining_work(priority)
-- RW of each nucleus: of all its tasks, and of those with at least a priority.
SELECT nucleus, sum(hs06_s) AS total_hs06_s,
       coalesce(sum(hs06_s) FILTER (WHERE priority >= :priority), 0) AS at_least_priority_hs06_s
FROM nucleus_remaining_work
GROUP BY nucleus;

-- name: lock_work(task_id)$
-- One at a time for each task: the difference to what is stored must be taken once.
SELECT pg_advisory_xact_lock(hashtext('remaining_work'), hashint8(:task_id));

-- name: note_work(task_id)!
-- RW of one task now: events not yet used x CPU time (300 HS06 s where it is not known) while it has work to do; the
-- difference to what was stored goes to its nucleus.
WITH now AS (
    SELECT t.task_id, t.nucleus, t.current_priority AS priority, w.events * coalesce(t.cpu_time, 300)
           * (CASE WHEN t.cpu_time_unit LIKE 'mHS06%' THEN 0.001 ELSE 1 END) AS hs06_s
    FROM tasks t
    CROSS JOIN LATERAL (
        SELECT sum(greatest(0, coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0)))::float8 AS events
        FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) w
    WHERE t.task_id = :task_id AND t.nucleus IS NOT NULL
      AND t.status IN ('ready', 'scouting', 'scouted', 'running', 'pending') AND w.events > 0),
before AS (SELECT nucleus, priority, hs06_s FROM task_remaining_work WHERE task_id = :task_id),
gone AS (DELETE FROM task_remaining_work WHERE task_id = :task_id AND NOT EXISTS (SELECT FROM now)),
kept AS (
    INSERT INTO task_remaining_work AS known (task_id, nucleus, priority, hs06_s)
    SELECT task_id, nucleus, priority, hs06_s FROM now
    ON CONFLICT (task_id) DO UPDATE
    SET nucleus = excluded.nucleus, priority = excluded.priority, hs06_s = excluded.hs06_s
    WHERE (known.nucleus, known.priority, known.hs06_s) IS DISTINCT FROM
          (excluded.nucleus, excluded.priority, excluded.hs06_s))
INSERT INTO nucleus_remaining_work AS known (nucleus, priority, hs06_s)
SELECT nucleus, priority, sum(change) FROM (
    SELECT nucleus, priority, -hs06_s AS change FROM before
    UNION ALL SELECT nucleus, priority, hs06_s FROM now) changes
GROUP BY nucleus, priority
HAVING sum(change) <> 0
ORDER BY nucleus, priority
ON CONFLICT (nucleus, priority) DO UPDATE SET hs06_s = greatest(0, known.hs06_s + excluded.hs06_s);

-- name: tasks_of_nuclei(max_rows)
-- Tasks whose stored RW may be wrong: with work to do and none stored or at another nucleus or priority, or stored and
-- without work to do.
SELECT t.task_id
FROM tasks t LEFT JOIN task_remaining_work w USING (task_id)
WHERE t.nucleus IS NOT NULL AND t.status IN ('ready', 'scouting', 'scouted', 'running', 'pending')
  AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
  AND (w.nucleus, w.priority) IS DISTINCT FROM (t.nucleus::text, t.current_priority)
UNION
SELECT w.task_id
FROM task_remaining_work w JOIN tasks t USING (task_id)
WHERE t.status NOT IN ('ready', 'scouting', 'scouted', 'running', 'pending')
ORDER BY 1
LIMIT :max_rows;

-- name: assign_nucleus(task_id, nucleus, allowed)!
UPDATE tasks
SET status = 'ready', nucleus = :nucleus, retry_at = NULL, error_dialog = NULL, modification_time = orrery_now(),
    state_change_time = orrery_now()
WHERE task_id = :task_id AND status = ANY(:allowed::text[]);

-- name: keep_waiting(task_id, retry_at, reason)!
UPDATE tasks
SET retry_at = :retry_at, error_dialog = :reason, modification_time = orrery_now()
WHERE task_id = :task_id AND status = 'assigning';

-- name: insert_decision(kind, task_id, chunk_id, plugin, seed, world_version, outcome, chosen, retry_at, summary, names, codes, found, wanted, weights, terms, checks)$
INSERT INTO brokerage_decisions (kind, task_id, chunk_id, plugin, seed, world_version, outcome, chosen, retry_at, summary,
                                 names, codes, found, wanted, weights, terms, checks)
VALUES (:kind, :task_id, :chunk_id, :plugin, :seed, :world_version, :outcome, :chosen, :retry_at, :summary,
        :names, :codes, :found, :wanted, :weights, :terms, :checks)
RETURNING decision_id;
