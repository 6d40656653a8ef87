-- name: lock_tasks
-- The first lock of who changes tasks; who only counts plain ends of jobs takes none of them.
SELECT task_id, status, old_status, task_name, user_name, vo, prod_source_label, task_type, processing_type,
       working_group, current_priority, gshare, resource_type, core_count, nucleus, req_id, architecture, trans_path,
       trans_home, trans_uses, campaign, container_name, merge_core_count, merge_ram_count, merge_ram_unit,
       merge_walltime, work_queue_id, max_attempt, split_rule, ram_count, ram_unit, base_ram_count, out_disk_count, out_disk_unit,
       work_disk_count, work_disk_unit, cpu_time, cpu_time_unit, cpu_efficiency, base_walltime, walltime, walltime_unit,
       io_intensity, io_intensity_unit, disk_io, disk_io_unit, ip_connectivity, fixed_units, measured_units, retry_at,
       site, cloud, command, event_service, use_jumbo, co_jumbo_retry_at
  FROM tasks WHERE task_id = ANY(:task_ids::bigint[]) ORDER BY task_id FOR NO KEY UPDATE;

-- name: task_texts
-- The submitted parameters and the command lines of a task.
SELECT p.task_parameters, t.job_parameters_template
  FROM task_parameters p LEFT JOIN job_parameters_templates t USING (task_id) WHERE p.task_id = :task_id;

-- name: datasets_of_task
-- All datasets of a task but those that were taken out of it. Index task_datasets_task.
SELECT dataset_id, dataset_name, container_name, type, status, stream_name, master_id, provenance_id, n_files,
       n_files_to_be_used, n_files_used, n_files_finished, n_files_failed, n_files_on_hold, attributes, storage_token,
       destination, state, scope, template_id, site
  FROM task_datasets WHERE task_id = :task_id AND status <> 'removed' ORDER BY dataset_id;

-- name: move_task
-- A task changes its state, by compare-and-set; who waits keeps the time since when.
UPDATE tasks SET status = :to_status::text, old_status = :old_status, retry_at = :retry_at, error_dialog = :error_dialog,
       state_change_time = orrery_now(), modification_time = orrery_now(),
       frozen_time = CASE WHEN :to_status::text = 'pending' THEN coalesce(frozen_time, orrery_now()) END,
       start_time = CASE WHEN :to_status::text IN ('scouting', 'running') THEN coalesce(start_time, orrery_now())
                         ELSE start_time END
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING task_id;

-- name: set_retry_at
-- When a task is looked at again; a row that would not change is not written.
UPDATE tasks SET retry_at = :retry_at::timestamptz
 WHERE task_id = :task_id AND retry_at IS DISTINCT FROM :retry_at::timestamptz;

-- name: record_decision
-- Why jobs were made of the task, or not: the latest decision, and the last ones. A wait that goes on is one row there.
WITH latest AS (
    INSERT INTO generation_decisions (task_id, outcome, reason, numbers, retry_at)
    VALUES (:task_id, :outcome, :reason, :numbers, :retry_at)
    ON CONFLICT (task_id) DO UPDATE SET decided_at = orrery_now(), outcome = excluded.outcome,
           reason = excluded.reason, numbers = excluded.numbers, retry_at = excluded.retry_at),
again AS (
    UPDATE generation_history h
       SET last_at = orrery_now(), n_times = h.n_times + 1, reason = :reason, numbers = :numbers
     WHERE h.decision_id = (SELECT max(decision_id) FROM generation_history WHERE task_id = :task_id)
       AND h.outcome = :outcome AND :outcome IN ('throttled', 'unplaceable', 'unsplittable')
    RETURNING h.decision_id),
added AS (
    INSERT INTO generation_history (task_id, outcome, reason, numbers)
    SELECT :task_id, :outcome, :reason, :numbers WHERE NOT EXISTS (SELECT FROM again) RETURNING decision_id)
DELETE FROM generation_history
 WHERE task_id = :task_id
   AND decision_id <= (SELECT decision_id FROM generation_history WHERE task_id = :task_id
                        ORDER BY decision_id DESC OFFSET 20 - (SELECT count(*) FROM added) LIMIT 1);

-- name: open_chunks
-- Chunks of a task that are being brokered. Index chunks_task.
SELECT chunk_id, kind, dataset_id, queue, n_files, max_jobs, ram_mb, is_for_waiting, needs_key FROM chunks
 WHERE task_id = :task_id AND status = 'offered' ORDER BY chunk_id;

-- name: scouts_were_made
-- Whether scout jobs of the task were ever made. Index chunks_task.
SELECT EXISTS (SELECT FROM chunks WHERE task_id = :task_id AND kind = 'scout' AND status = 'used' AND n_jobs > 0);

-- name: insert_chunk
-- Its files are picked already. What it holds of each dataset stays when they leave it: a file that was cut into ranges
-- of events counts once. Where a boundary is one job, the most files, events and bytes that one has are kept too.
INSERT INTO chunks (chunk_id, task_id, kind, status, dataset_id, n_files, n_events, input_bytes, queue, priority, max_jobs,
                    ram_mb, needs_key, inputs, largest_boundary)
VALUES (:chunk_id, :task_id, :kind, 'offered', :dataset_id, :n_files, :n_events, :input_bytes, :queue, :priority,
        :max_jobs, :ram_mb, :needs_key, (
    SELECT coalesce(jsonb_agg(jsonb_build_object('dataset_id', dataset_id, 'n_files', n_files, 'n_bytes', n_bytes,
                                                 'n_events', n_events) ORDER BY dataset_id), '[]')
      FROM (SELECT dataset_id, count(*) AS n_files, sum(n_bytes) AS n_bytes, sum(n_events) AS n_events
              FROM (SELECT dataset_id, lfn, coalesce(max(fsize), 0) AS n_bytes, coalesce(sum(n_events), 0) AS n_events
                      FROM task_files WHERE chunk_id = :chunk_id AND status = 'picked'
                     GROUP BY dataset_id, lfn) whole_files
             GROUP BY dataset_id) held), (
    SELECT jsonb_build_object('n_files', max(n_files), 'n_events', max(n_events), 'n_bytes', max(n_bytes),
                              'n_boundaries', count(*))
      FROM (SELECT sum(n_files) AS n_files, sum(n_events) AS n_events, sum(n_bytes) AS n_bytes
              FROM (SELECT boundary_id, count(*) AS n_files, coalesce(max(fsize), 0) AS n_bytes,
                           sum(coalesce(n_events, end_event - start_event + 1, 1)) AS n_events
                      FROM task_files WHERE chunk_id = :chunk_id AND status = 'picked' AND boundary_id IS NOT NULL
                     GROUP BY boundary_id, lfn) whole_files
             GROUP BY boundary_id) boundaries
     WHERE :kind <> 'merge' AND EXISTS (SELECT FROM tasks WHERE task_id = :task_id
                                           AND split_rule ->> 'groupBoundaryID' IN ('3', '4'))
    HAVING count(*) > 0));

-- name: end_chunk
-- An offered chunk is used or goes back, once.
UPDATE chunks SET status = :to_status::text, ended_at = orrery_now(), reason = :reason
 WHERE chunk_id = :chunk_id AND task_id = :task_id AND status = 'offered'
RETURNING chunk_id, kind, dataset_id, queue, n_files, max_jobs, ram_mb, is_for_waiting, needs_key;

-- name: return_chunk
-- A chunk of which no job was made was not used.
UPDATE chunks SET status = 'returned', reason = coalesce(reason, :reason)
 WHERE chunk_id = :chunk_id AND status = 'used' AND n_jobs = 0;

-- name: count_chunk_jobs
-- How many jobs were made of a chunk that was used.
UPDATE chunks SET n_jobs = :n_jobs, reason = NULL WHERE chunk_id = :chunk_id;

-- name: move_datasets
-- Datasets of these types change their state, by compare-and-set.
UPDATE task_datasets SET status = :to_status::text, modification_time = orrery_now()
 WHERE task_id = :task_id AND type = ANY(:types::text[]) AND status = ANY(:allowed::text[])
RETURNING dataset_id;

-- name: held_blocks
-- Luminosity blocks of which files wait for a parent or for tape. Index task_files_state.
SELECT coalesce(array_agg(DISTINCT lumi_block_nr), '{}') FROM task_files
 WHERE dataset_id = :dataset_id AND status IN ('pending', 'staging') AND lumi_block_nr IS NOT NULL;

-- name: pick_files
-- Units that need the task's memory, or those whose memory was raised to one value. The row of the task is locked: the
-- state is looked at once more by the update, and rows need no lock of their own.
WITH ordinary AS MATERIALIZED (
    SELECT file_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' AND :ram_mb::bigint IS NULL
       AND (ram_count IS NULL OR ram_count <= :task_ram_mb::bigint)
       AND (lumi_block_nr IS NULL OR lumi_block_nr <> ALL(:held_blocks::bigint[]))
     ORDER BY file_id LIMIT :n_files),
raised AS MATERIALIZED (
    SELECT file_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' AND ram_count = :ram_mb::bigint
       AND (lumi_block_nr IS NULL OR lumi_block_nr <> ALL(:held_blocks::bigint[]))
     ORDER BY file_id LIMIT :n_files),
chosen AS (SELECT file_id FROM ordinary UNION ALL SELECT file_id FROM raised),
picked AS (
    UPDATE task_files f SET status = 'picked', chunk_id = :chunk_id FROM chosen c
     WHERE f.file_id = c.file_id AND f.status = 'ready'
    RETURNING f.file_id, f.lfn, f.fsize, f.n_events)
SELECT (SELECT coalesce(array_agg(file_id ORDER BY file_id), '{}') FROM picked) AS ids,
       (SELECT coalesce(sum(n_events), 0)::bigint FROM picked) AS n_events,
       (SELECT coalesce(sum(fsize), 0)::bigint FROM (SELECT DISTINCT lfn, fsize FROM picked) whole) AS n_bytes;

-- name: pick_whole_boundaries
-- As pick_files, with everything that is ready of each boundary that was begun: units of a boundary were in one job, so
-- that the memory of all was raised together.
WITH begun AS MATERIALIZED (
    SELECT file_id, boundary_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready'
       AND CASE WHEN :ram_mb::bigint IS NULL THEN ram_count IS NULL OR ram_count <= :task_ram_mb::bigint
                ELSE ram_count = :ram_mb::bigint END
       AND (lumi_block_nr IS NULL OR lumi_block_nr <> ALL(:held_blocks::bigint[]))
     ORDER BY file_id LIMIT :n_files),
chosen AS MATERIALIZED (
    SELECT f.file_id FROM task_files f
     WHERE f.dataset_id = :dataset_id AND f.status = 'ready'
       AND (f.file_id IN (SELECT file_id FROM begun) OR f.boundary_id IN (SELECT boundary_id FROM begun))
     ORDER BY f.file_id FOR NO KEY UPDATE),
picked AS (
    UPDATE task_files f SET status = 'picked', chunk_id = :chunk_id FROM chosen c WHERE f.file_id = c.file_id
    RETURNING f.file_id, f.lfn, f.fsize, f.n_events)
SELECT (SELECT coalesce(array_agg(file_id ORDER BY file_id), '{}') FROM picked) AS ids,
       (SELECT coalesce(sum(n_events), 0)::bigint FROM picked) AS n_events,
       (SELECT coalesce(sum(fsize), 0)::bigint FROM (SELECT DISTINCT lfn, fsize FROM picked) whole) AS n_bytes;

-- name: pick_named
-- These ready files become part of a chunk.
UPDATE task_files SET status = 'picked', chunk_id = :chunk_id
 WHERE file_id = ANY(:ids::bigint[]) AND status = 'ready'
RETURNING file_id, dataset_id, type,
          coalesce(n_events, 0) AS events;

-- name: unpick
-- Picked files of a chunk, all or these, are ready again. Index task_files_chunk.
UPDATE task_files SET status = 'ready', chunk_id = NULL
 WHERE task_id = :task_id AND chunk_id = :chunk_id AND status = 'picked'
   AND (:ids::bigint[] IS NULL OR file_id = ANY(:ids::bigint[]))
RETURNING file_id, dataset_id, type,
          coalesce(n_events, 0) AS events;

-- name: note_seed
-- What decides the random draws of a chunk.
UPDATE chunks SET seed = :seed WHERE chunk_id = :chunk_id;

-- name: templates_of_task
-- How outputs of the task are named. Index output_templates_task.
SELECT o.out_temp_id, o.dataset_id, o.file_name_template, o.stream_name, o.serial_nr, d.type
  FROM output_templates o JOIN task_datasets d USING (dataset_id)
 WHERE o.task_id = :task_id ORDER BY o.out_temp_id;

-- name: live_jobs
-- Jobs that are live or whose end was not counted, up to 1 000 each, and chunks on their way. Indexes jobs_task,
-- jobs_unapplied.
SELECT (SELECT count(*) FROM (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:live::text[]) LIMIT 1000) l)
     + (SELECT count(*) FROM (SELECT FROM jobs WHERE task_id = :task_id AND results_applied_at IS NULL
           AND status IN ('finished', 'failed', 'closed', 'cancelled') LIMIT 1000) e)
     + (SELECT count(*) FROM chunks WHERE task_id = :task_id AND status = 'offered');

-- name: something_runs
-- Whether a task has a job or a chunk under way; jobs without a queue only stand for others. Index jobs_task.
SELECT EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:live::text[])
                  AND NOT (status = 'waiting' AND queue IS NULL))
    OR EXISTS (SELECT FROM jobs WHERE task_id = :task_id AND results_applied_at IS NULL
                  AND status IN ('finished', 'failed', 'closed', 'cancelled'))
    OR EXISTS (SELECT FROM chunks WHERE task_id = :task_id AND status = 'offered');

-- name: idle_tasks
-- Tasks whose time to be looked at has come, themselves or with a chunk of input. Indexes tasks_retry and chunks_held.
SELECT task_id
  FROM (SELECT task_id, retry_at FROM tasks WHERE retry_at <= orrery_now() AND status = ANY(:statuses::text[])
        UNION ALL
        SELECT c.task_id, c.retry_at FROM chunks c JOIN tasks t USING (task_id)
         WHERE c.retry_at <= orrery_now() AND c.kind <> 'merge' AND t.status = ANY(:statuses::text[])) due
 GROUP BY task_id ORDER BY min(retry_at), task_id LIMIT :count;
