-- name: chunk_with_task
-- A chunk with its task; where it must wait for queues, nothing if it was used or returned meanwhile.
-- told by: DETAILS
SELECT c.chunk_id, c.kind, c.n_files AS chunk_files, c.n_events AS chunk_events, c.input_bytes AS chunk_bytes,
       c.queue AS chunk_queue, c.priority AS chunk_priority, c.ram_mb AS chunk_ram_mb, c.largest_boundary,
       t.task_id, t.status AS task_status, t.vo, t.prod_source_label, t.task_type, t.processing_type, t.working_group,
       t.gshare, t.user_name, t.resource_type, t.nucleus, t.site, t.split_rule, t.core_count, t.ram_count, t.ram_unit,
       t.base_ram_count, t.out_disk_count, t.out_disk_unit, t.work_disk_count, t.work_disk_unit, t.cpu_time,
       t.cpu_time_unit, t.cpu_efficiency, t.base_walltime, t.io_intensity, t.io_intensity_unit, t.disk_io,
       t.disk_io_unit, t.ip_connectivity, t.merge_core_count, t.merge_ram_count, t.merge_ram_unit, t.architecture,
       t.container_name, t.trans_uses, t.trans_home, t.event_service, t.use_jumbo, t.current_priority, t.cloud,
       merging.waiting_since AS merge_waiting_since
FROM chunks c
JOIN tasks t USING (task_id)
-- Since when no merge chunk of the task found its queue: the oldest since the last that did.
LEFT JOIN LATERAL (
    SELECT min(m.created_at) AS waiting_since FROM chunks m
    WHERE m.task_id = c.task_id AND m.kind = 'merge' AND m.queue = c.queue AND m.status <> 'used'
      AND m.chunk_id > (SELECT coalesce(max(u.chunk_id), 0) FROM chunks u
                        WHERE u.task_id = c.task_id AND u.kind = 'merge' AND u.queue = c.queue AND u.status = 'used')
    ) merging ON c.kind = 'merge'
WHERE c.chunk_id = :chunk_id AND (c.status = 'offered' OR NOT :must_wait::boolean);

-- name: last_chunk
-- The newest chunk of a task. Index chunks_latest.
-- told by: DETAILS
SELECT chunk_id FROM chunks WHERE task_id = :task_id ORDER BY chunk_id DESC LIMIT 1;

-- name: live_adverts
-- Advertisements of sites that are still believed.
-- told by: DETAILS
SELECT site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches, requirements,
       advertisement, expires_at
FROM site_adverts WHERE expires_at > orrery_now() ORDER BY site;

-- name: insert_decision
-- A decision with all its numbers, for people and for dry runs.
INSERT INTO brokerage_decisions (kind, task_id, chunk_id, plugin, seed, world_version, outcome, chosen, retry_at, summary,
                                 names, codes, found, wanted, weights, terms, checks)
VALUES (:kind, :task_id, :chunk_id, :plugin, :seed, :world_version, :outcome, :chosen, :retry_at, :summary,
        :names, :codes, :found, :wanted, :weights, :terms, :checks)
RETURNING decision_id;

-- name: forget_decisions
-- The last few of each task and kind stay, for a week: many about chunks do not drive out the one about the nucleus. The
-- very last of each kind stays as long as the task is there and not at its end.
DELETE FROM brokerage_decisions
WHERE decision_id IN (
    SELECT ranked.decision_id
    FROM (SELECT decision_id, task_id, decided_at,
                 row_number() OVER (PARTITION BY task_id, kind ORDER BY decision_id DESC) AS place
          FROM brokerage_decisions) ranked
    LEFT JOIN tasks t USING (task_id)
    WHERE ranked.place > :keep
       OR (ranked.decided_at < :older_than
           AND (ranked.place > 1 OR t.status IS NULL
                OR t.status IN ('done', 'finished', 'failed', 'broken', 'aborted'))));
