-- name: task_of_file
-- A task as it was submitted and as it is now, with its parent.
-- told by: PRODUCTION
SELECT s.task_parameters, t.task_id, t.status, t.user_name, t.vo, t.current_priority, t.gshare, t.resource_type, t.split_rule,
       t.parent_tid, p.status AS parent_status, p.nucleus AS parent_nucleus,
       t.nucleus, t.site, t.cloud, t.core_count, t.ram_count, t.ram_unit, t.base_ram_count, t.out_disk_count,
       t.out_disk_unit, t.work_disk_count, t.work_disk_unit, t.cpu_time, t.cpu_time_unit, t.cpu_efficiency,
       t.base_walltime, t.io_intensity, t.io_intensity_unit, t.disk_io, t.disk_io_unit, t.merge_core_count,
       t.merge_ram_count, t.merge_ram_unit, t.event_service, t.use_jumbo,
       CASE WHEN t.status = 'assigning' THEN t.state_change_time END AS assigning_since
FROM tasks t
JOIN task_parameters s USING (task_id)
LEFT JOIN tasks p ON p.task_id = t.parent_tid AND t.parent_tid <> t.task_id
WHERE t.task_id = :task_id;

-- name: chunk_of_file
-- The chunk that has waited longest for queues, else the last one; since when merging of its queue finds no place: that
-- it was used in the end does not change how it was placed.
-- told by: PRODUCTION
SELECT c.chunk_id, c.task_id, c.kind, c.n_files, c.n_events, c.input_bytes, c.queue, c.priority, c.ram_mb, merging.waiting_since,
       c.largest_boundary, c.inputs IS NOT NULL AS has_inputs
FROM chunks c
LEFT JOIN LATERAL (
    SELECT min(m.created_at) AS waiting_since FROM chunks m
    WHERE m.task_id = c.task_id AND m.kind = 'merge' AND m.queue = c.queue
      AND (m.status <> 'used' OR m.chunk_id = c.chunk_id)
      AND m.chunk_id > (SELECT coalesce(max(u.chunk_id), 0) FROM chunks u
                        WHERE u.task_id = c.task_id AND u.kind = 'merge' AND u.queue = c.queue AND u.status = 'used'
                          AND u.chunk_id <> c.chunk_id)
    ) merging ON c.kind = 'merge'
WHERE c.task_id = :task_id
ORDER BY c.status = 'offered' DESC, CASE WHEN c.status = 'offered' THEN c.chunk_id ELSE -c.chunk_id END
LIMIT 1;

-- name: seed_of_file
-- Of the last decision about the chunk; without a chunk, about the task.
-- told by: PRODUCTION
SELECT seed FROM brokerage_decisions
WHERE task_id = :task_id AND chunk_id IS NOT DISTINCT FROM :chunk_id::bigint
ORDER BY decision_id DESC
LIMIT 1;
