-- name: assigning_task
-- A task that still waits for a nucleus, with that of its parent.
SELECT t.task_id, t.vo, t.prod_source_label, t.task_type, t.processing_type, t.working_group, t.gshare, t.user_name,
       t.resource_type, t.current_priority, t.site, t.cloud, t.split_rule, t.core_count, t.ram_count, t.ram_unit,
       t.base_ram_count, t.out_disk_count, t.out_disk_unit, t.work_disk_count, t.work_disk_unit, t.cpu_time,
       t.cpu_time_unit, t.cpu_efficiency, t.base_walltime, t.io_intensity, t.io_intensity_unit, t.disk_io,
       t.disk_io_unit, t.ip_connectivity, t.parent_tid, t.architecture, t.container_name, t.trans_uses, t.trans_home,
       t.event_service, t.use_jumbo, p.nucleus AS parent_nucleus, t.state_change_time AS assigning_since
FROM tasks t
LEFT JOIN tasks p ON p.task_id = t.parent_tid AND t.parent_tid <> t.task_id
WHERE t.task_id = :task_id AND t.status = 'assigning'
FOR UPDATE OF t;

-- name: largest_boundary
-- Where a boundary is one job: the most files, events and bytes that one has, of so many units of each master dataset
-- (more are not looked at: the largest of many boundaries is about as large as the largest of all), and how many there
-- are.
SELECT max(n_files) AS n_files, max(n_events) AS n_events, max(n_bytes) AS n_bytes, count(*) AS n_boundaries
FROM (SELECT sum(n_files) AS n_files, sum(n_events) AS n_events, sum(n_bytes) AS n_bytes
      FROM (SELECT f.boundary_id, count(DISTINCT f.lfn) AS n_files, coalesce(max(f.fsize), 0) AS n_bytes,
                   sum(coalesce(f.n_events, f.end_event - f.start_event + 1, 1)) AS n_events
            FROM task_datasets d
            CROSS JOIN LATERAL (
                SELECT boundary_id, lfn, fsize, n_events, start_event, end_event FROM task_files
                WHERE dataset_id = d.dataset_id AND status = 'ready' AND boundary_id IS NOT NULL
                ORDER BY file_id LIMIT :most_units) f
            WHERE d.task_id = :task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')
            GROUP BY f.boundary_id, f.lfn) whole_files
      GROUP BY boundary_id) boundaries
HAVING count(*) > 0;

-- name: remaining_work
-- RW of each nucleus: of all its tasks, and of those with at least a priority.
SELECT nucleus, sum(hs06_s) AS total_hs06_s,
       coalesce(sum(hs06_s) FILTER (WHERE priority >= :priority), 0) AS at_least_priority_hs06_s
FROM nucleus_remaining_work
GROUP BY nucleus;

-- name: lock_work
-- One at a time for each task, and none while all are locked: the difference to what is stored must be taken once.
SELECT pg_advisory_xact_lock_shared(hashtext('remaining_work_of_nuclei'), 0),
       pg_advisory_xact_lock(hashtext('remaining_work'), hashint8(:task_id));

-- name: lock_all_work
-- Whoever notes work has this lock, shared, before any row: who waits for it holds nothing that they could wait for.
SELECT pg_advisory_xact_lock(hashtext('remaining_work_of_nuclei'), 0);

-- name: changed_work
-- Tasks whose RW is not what is stored, with what it is: events not yet used x CPU time (300 HS06 s where it is not
-- known) while there are any and the task may use them; without nucleus if it has none left.
WITH now AS (
    SELECT t.task_id, t.nucleus::text AS nucleus, t.current_priority AS priority, w.events * coalesce(t.cpu_time, 300)
           * (CASE WHEN t.cpu_time_unit LIKE 'mHS06%' THEN 0.001 ELSE 1 END) AS hs06_s
    FROM tasks t
    CROSS JOIN LATERAL (
        SELECT sum(greatest(0, coalesce(d.n_events, 0) - coalesce(d.n_events_used, 0)))::float8 AS events
        FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) w
    WHERE t.task_id BETWEEN :first_task_id AND :last_task_id AND t.nucleus IS NOT NULL
      AND t.status IN ('ready', 'scouting', 'scouted', 'running', 'pending') AND w.events > 0),
stored AS (
    SELECT task_id, nucleus, priority, hs06_s FROM task_remaining_work
    WHERE task_id BETWEEN :first_task_id AND :last_task_id)
SELECT task_id, now.nucleus, now.priority, now.hs06_s
FROM now FULL JOIN stored USING (task_id)
WHERE (now.nucleus, now.priority, now.hs06_s) IS DISTINCT FROM (stored.nucleus, stored.priority, stored.hs06_s)
ORDER BY task_id
LIMIT :max_rows;

-- name: store_work
-- The RW of these tasks as it is now; the difference to what was stored goes to their nuclei, whose rows are taken in
-- one order by everybody.
WITH now AS (
    SELECT * FROM unnest(:task_ids::bigint[], :nuclei::text[], :priorities::int[], :hs06_s::float8[])
        AS work (task_id, nucleus, priority, hs06_s)),
before AS (SELECT nucleus, priority, hs06_s FROM task_remaining_work WHERE task_id = ANY(:task_ids::bigint[])),
gone AS (DELETE FROM task_remaining_work WHERE task_id IN (SELECT task_id FROM now WHERE nucleus IS NULL)),
kept AS (
    INSERT INTO task_remaining_work AS known (task_id, nucleus, priority, hs06_s)
    SELECT task_id, nucleus, priority, hs06_s FROM now WHERE nucleus IS NOT NULL
    ON CONFLICT (task_id) DO UPDATE
    SET nucleus = excluded.nucleus, priority = excluded.priority, hs06_s = excluded.hs06_s)
INSERT INTO nucleus_remaining_work AS known (nucleus, priority, hs06_s)
SELECT nucleus, priority, sum(change) FROM (
    SELECT nucleus, priority, -hs06_s AS change FROM before
    UNION ALL SELECT nucleus, priority, hs06_s FROM now WHERE nucleus IS NOT NULL) changes
GROUP BY nucleus, priority
HAVING sum(change) <> 0
ORDER BY nucleus, priority
ON CONFLICT (nucleus, priority) DO UPDATE SET hs06_s = greatest(0, known.hs06_s + excluded.hs06_s);

-- name: wrong_sums
-- Sums of nuclei that are not those of their tasks, but for what rounding explains. Both change in one statement, so a
-- difference that anybody can see is one that stays.
SELECT nucleus, priority, coalesce(s.hs06_s, 0) AS hs06_s
FROM (SELECT nucleus, priority, sum(hs06_s) AS hs06_s FROM task_remaining_work GROUP BY nucleus, priority) s
FULL JOIN nucleus_remaining_work n USING (nucleus, priority)
WHERE abs(coalesce(s.hs06_s, 0) - coalesce(n.hs06_s, 0))
      > 1e-9 * greatest(1, coalesce(s.hs06_s, 0), coalesce(n.hs06_s, 0));

-- name: store_sums
-- Sums of nuclei that were wrong are set right.
INSERT INTO nucleus_remaining_work (nucleus, priority, hs06_s)
SELECT * FROM unnest(:nuclei::text[], :priorities::int[], :hs06_s::float8[])
ON CONFLICT (nucleus, priority) DO UPDATE SET hs06_s = excluded.hs06_s;

-- name: assign_nucleus
-- assigning to ready, by compare-and-set.
UPDATE tasks
SET status = 'ready', nucleus = :nucleus, retry_at = NULL, error_dialog = NULL, modification_time = orrery_now(),
    state_change_time = orrery_now()
WHERE task_id = :task_id AND status = ANY(:allowed::text[]);

-- name: keep_waiting
-- A task stays assigning: when it is looked at again, and why.
UPDATE tasks
SET retry_at = :retry_at, error_dialog = :reason, modification_time = orrery_now()
WHERE task_id = :task_id AND status = 'assigning';

-- name: insert_decision
-- A decision with all its numbers, for people and for dry runs.
INSERT INTO brokerage_decisions (kind, task_id, chunk_id, plugin, seed, world_version, outcome, chosen, retry_at, summary,
                                 names, codes, found, wanted, weights, terms, checks)
VALUES (:kind, :task_id, :chunk_id, :plugin, :seed, :world_version, :outcome, :chosen, :retry_at, :summary,
        :names, :codes, :found, :wanted, :weights, :terms, :checks)
RETURNING decision_id;
