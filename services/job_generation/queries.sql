-- name: lock_tasks
-- The first lock of every transaction here: whatever else it changes belongs to these tasks.
SELECT task_id, status, old_status, task_name, user_name, vo, prod_source_label, task_type, processing_type,
       working_group, current_priority, gshare, resource_type, core_count, nucleus, req_id, architecture, trans_path,
       trans_home, trans_uses, campaign, container_name, merge_core_count, merge_ram_count, merge_walltime,
       work_queue_id, max_attempt, split_rule, ram_count, ram_unit, base_ram_count, out_disk_count, out_disk_unit,
       work_disk_count, work_disk_unit, cpu_time, cpu_time_unit, cpu_efficiency, base_walltime, walltime, walltime_unit,
       io_intensity, io_intensity_unit, disk_io, disk_io_unit, ip_connectivity, fixed_units, measured_units, retry_at,
       site, cloud, command
  FROM tasks WHERE task_id = ANY(:task_ids::bigint[]) ORDER BY task_id FOR NO KEY UPDATE;

-- name: task_texts^
SELECT p.task_parameters, t.job_parameters_template
  FROM task_parameters p LEFT JOIN job_parameters_templates t USING (task_id) WHERE p.task_id = :task_id;

-- name: datasets_of_task
SELECT dataset_id, dataset_name, container_name, type, status, stream_name, master_id, provenance_id, n_files,
       n_files_to_be_used, n_files_used, n_files_finished, n_files_failed, n_files_on_hold, attributes, storage_token,
       destination, state, scope
  FROM task_datasets WHERE task_id = :task_id ORDER BY dataset_id;

-- name: move_task^
UPDATE tasks SET status = :to_status::text, old_status = :old_status, retry_at = :retry_at, error_dialog = :error_dialog,
       state_change_time = orrery_now(), modification_time = orrery_now(),
       frozen_time = CASE WHEN :to_status::text = 'pending' THEN coalesce(frozen_time, orrery_now()) END,
       start_time = CASE WHEN :to_status::text IN ('scouting', 'running') THEN coalesce(start_time, orrery_now())
                         ELSE start_time END
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING task_id;

-- name: set_retry_at!
UPDATE tasks SET retry_at = :retry_at::timestamptz
 WHERE task_id = :task_id AND retry_at IS DISTINCT FROM :retry_at::timestamptz;

-- name: record_decision!
INSERT INTO generation_decisions (task_id, outcome, reason, numbers, retry_at)
VALUES (:task_id, :outcome, :reason, :numbers, :retry_at)
ON CONFLICT (task_id) DO UPDATE SET decided_at = orrery_now(), outcome = excluded.outcome, reason = excluded.reason,
       numbers = excluded.numbers, retry_at = excluded.retry_at;

-- name: open_chunks
SELECT chunk_id, kind, dataset_id, queue, n_files, max_jobs, ram_mb FROM chunks
 WHERE task_id = :task_id AND status = 'offered' ORDER BY chunk_id;

-- name: scouts_were_made$
SELECT EXISTS (SELECT FROM chunks WHERE task_id = :task_id AND kind = 'scout' AND status = 'used' AND n_jobs > 0);

-- name: insert_chunk!
-- Its files are picked already. What it holds of each dataset stays when they leave it: a file that was cut into ranges
-- of events counts once. Where a boundary is one job, the most files, events and bytes that one has are kept too.
INSERT INTO chunks (chunk_id, task_id, kind, status, dataset_id, n_files, n_events, input_bytes, queue, priority, max_jobs,
                    ram_mb, inputs, largest_boundary)
VALUES (:chunk_id, :task_id, :kind, 'offered', :dataset_id, :n_files, :n_events, :input_bytes, :queue, :priority,
        :max_jobs, :ram_mb, (
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

-- name: end_chunk^
UPDATE chunks SET status = :to_status::text, ended_at = orrery_now(), reason = :reason
 WHERE chunk_id = :chunk_id AND task_id = :task_id AND status = 'offered'
RETURNING chunk_id, kind, dataset_id, queue, n_files, max_jobs, ram_mb;

-- name: return_chunk!
-- A chunk of which no job was made was not used.
UPDATE chunks SET status = 'returned', reason = coalesce(reason, :reason)
 WHERE chunk_id = :chunk_id AND status = 'used' AND n_jobs = 0;

-- name: hold_memory!
-- Units of this chunk's memory are not tried before a time.
UPDATE chunks SET retry_at = :retry_at WHERE chunk_id = :chunk_id;

-- name: held_memory
-- Memory whose time has not come.
SELECT DISTINCT dataset_id, ram_mb FROM chunks WHERE task_id = :task_id AND retry_at > orrery_now();

-- name: release_memory!
-- What waits of a task may be tried: all, or of one memory.
UPDATE chunks SET retry_at = NULL
 WHERE task_id = :task_id AND retry_at IS NOT NULL AND (:ram_mb::bigint IS NULL OR ram_mb = :ram_mb::bigint);

-- name: count_chunk_jobs!
UPDATE chunks SET n_jobs = :n_jobs, reason = :reason WHERE chunk_id = :chunk_id;

-- name: open_all_files
UPDATE task_datasets SET n_files_to_be_used = n_files, modification_time = orrery_now()
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input') AND n_files_to_be_used <> n_files
RETURNING dataset_id, n_files;

-- name: open_files_in_use!
UPDATE task_datasets SET n_files_to_be_used = n_files_used, modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND n_files_to_be_used < n_files_used;

-- name: add_to_counters!
UPDATE task_datasets d
   SET n_files = d.n_files + c.n_files, n_files_used = d.n_files_used + c.used,
       n_files_finished = d.n_files_finished + c.finished, n_files_failed = d.n_files_failed + c.failed,
       n_files_on_hold = d.n_files_on_hold + c.on_hold,
       n_events_used = CASE WHEN c.events = 0 THEN d.n_events_used ELSE coalesce(d.n_events_used, 0) + c.events END,
       modification_time = orrery_now()
  FROM unnest(:ids::bigint[], :n_files::bigint[], :used::bigint[], :finished::bigint[], :failed::bigint[],
              :on_hold::bigint[], :events::bigint[]) AS c (dataset_id, n_files, used, finished, failed, on_hold, events)
 WHERE d.dataset_id = c.dataset_id;

-- name: move_datasets
UPDATE task_datasets SET status = :to_status::text, modification_time = orrery_now()
 WHERE task_id = :task_id AND type = ANY(:types::text[]) AND status = ANY(:allowed::text[])
RETURNING dataset_id;

-- name: raised_memory
-- Memory above the task's that ready units of its datasets need: one step in the index for each, however many units.
SELECT d.dataset_id, raised.ram_count
  FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
  CROSS JOIN LATERAL (
       WITH RECURSIVE step AS (
           SELECT (SELECT min(f.ram_count) FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.status = 'ready'
                      AND f.ram_count > :task_ram_mb::bigint) AS ram_count
           UNION ALL
           SELECT (SELECT min(f.ram_count) FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.status = 'ready'
                      AND f.ram_count > step.ram_count)
             FROM step WHERE step.ram_count IS NOT NULL)
       SELECT ram_count FROM step WHERE ram_count IS NOT NULL) raised
 ORDER BY d.dataset_id, raised.ram_count;

-- name: pick_files^
-- Units that need the task's memory, or those whose memory was raised to one value.
WITH ordinary AS MATERIALIZED (
    SELECT file_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' AND :ram_mb::bigint IS NULL
       AND (ram_count IS NULL OR ram_count <= :task_ram_mb::bigint)
     ORDER BY file_id LIMIT :n_files FOR NO KEY UPDATE),
raised AS MATERIALIZED (
    SELECT file_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' AND ram_count = :ram_mb::bigint
     ORDER BY file_id LIMIT :n_files FOR NO KEY UPDATE),
chosen AS (SELECT file_id FROM ordinary UNION ALL SELECT file_id FROM raised),
picked AS (
    UPDATE task_files f SET status = 'picked', chunk_id = :chunk_id FROM chosen c WHERE f.file_id = c.file_id
    RETURNING f.file_id, f.lfn, f.fsize, f.n_events)
SELECT (SELECT coalesce(array_agg(file_id ORDER BY file_id), '{}') FROM picked) AS ids,
       (SELECT coalesce(sum(n_events), 0)::bigint FROM picked) AS n_events,
       (SELECT coalesce(sum(fsize), 0)::bigint FROM (SELECT DISTINCT lfn, fsize FROM picked) whole) AS n_bytes;

-- name: pick_whole_boundaries^
-- As pick_files, with everything that is ready of each boundary that was begun: units of a boundary were in one job, so
-- that the memory of all was raised together.
WITH begun AS MATERIALIZED (
    SELECT file_id, boundary_id FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready'
       AND CASE WHEN :ram_mb::bigint IS NULL THEN ram_count IS NULL OR ram_count <= :task_ram_mb::bigint
                ELSE ram_count = :ram_mb::bigint END
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
UPDATE task_files SET status = 'picked', chunk_id = :chunk_id
 WHERE file_id = ANY(:ids::bigint[]) AND status = 'ready'
RETURNING file_id, dataset_id, type,
          coalesce(n_events, 0) AS events;

-- name: unpick
UPDATE task_files SET status = 'ready', chunk_id = NULL
 WHERE task_id = :task_id AND chunk_id = :chunk_id AND status = 'picked'
   AND (:ids::bigint[] IS NULL OR file_id = ANY(:ids::bigint[]))
RETURNING file_id, dataset_id, type,
          coalesce(n_events, 0) AS events;

-- name: files_of_chunk
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id
  FROM task_files WHERE chunk_id = :chunk_id AND status = 'picked' ORDER BY file_id;

-- name: ready_files
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id
  FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' ORDER BY file_id LIMIT :n_files;

-- name: files_holding$
-- How many files hold so many events, whichever are taken: the smallest first. A file without events counts one.
SELECT count(*) FROM (
    SELECT sum(events) OVER (ORDER BY events, file_id) - events AS held_before
      FROM (SELECT file_id, greatest(coalesce(n_events, 1), 1) AS events FROM task_files
             WHERE dataset_id = :dataset_id AND status = 'ready' ORDER BY file_id LIMIT :n_files) ready) counted
 WHERE held_before < :n_events::float8;

-- name: random_ready_files
-- As ready_files, in an order that the seed alone decides: a draw without putting back.
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id
  FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready'
 ORDER BY hashtextextended(lfn, :seed::bigint), file_id LIMIT :n_files;

-- name: note_seed!
UPDATE chunks SET seed = :seed WHERE chunk_id = :chunk_id;

-- name: files_to_jobs
UPDATE task_files f SET status = 'running', job_id = n.job_id, last_attempt_time = orrery_now(), chunk_id = NULL
  FROM unnest(:ids::bigint[], :job_ids::bigint[]) AS n (file_id, job_id)
 WHERE f.file_id = n.file_id AND f.status = 'picked'
RETURNING f.file_id, f.dataset_id, f.type,
          coalesce(f.n_events, 0) AS events;

-- name: templates_of_task
SELECT o.out_temp_id, o.dataset_id, o.file_name_template, o.stream_name, o.serial_nr, o.max_serial_nr, d.type
  FROM output_templates o JOIN task_datasets d USING (dataset_id)
 WHERE o.task_id = :task_id ORDER BY o.out_temp_id;

-- name: take_serials
UPDATE output_templates SET serial_nr = serial_nr + :count
 WHERE out_temp_id = ANY(:ids::bigint[]) RETURNING out_temp_id, serial_nr - :count AS first_serial;

-- name: known_shapes
SELECT shape_id, prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s FROM requirement_shapes
 WHERE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s) IN
       (SELECT * FROM unnest(:labels::text[], :types::text[], :cores::int[], :rams::int[], :disks::int[], :walls::int[]));

-- name: add_shapes!
INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)
SELECT DISTINCT * FROM unnest(:labels::text[], :types::text[], :cores::int[], :rams::int[], :disks::int[], :walls::int[])
 ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT DO NOTHING;

-- name: origins_of_jobs
SELECT new_job_id, coalesce(origin_job_id, old_job_id) AS origin FROM job_retry_history
 WHERE new_job_id = ANY(:ids::bigint[]);

-- name: queues_of_grid
SELECT queue, site, data FROM queues ORDER BY queue;

-- name: resource_types_of_grid
SELECT resource_name, min_core, max_core, min_ram_per_core, max_ram_per_core FROM resource_types ORDER BY position;

-- name: grid_version$
SELECT version FROM versions WHERE name = 'grid';

-- name: queued_at_queues
-- Moves are folded in any order, so a sum may be below nothing for a moment.
SELECT queue, resource_type, greatest(sum(n_jobs), 0)::int AS n_queued FROM queue_statistics
 WHERE queue = ANY(:queues::text[]) AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent')
 GROUP BY queue, resource_type;

-- name: jobs_of_share
SELECT status, greatest(sum(n_jobs), 0)::bigint AS n_jobs FROM queue_statistics
 WHERE gshare = :gshare AND resource_type = :resource_type GROUP BY status
UNION ALL
-- what chunks that are being brokered may become; merging is not throttled
SELECT 'offered', coalesce(sum(least(c.n_files, c.max_jobs)), 0)::bigint
  FROM chunks c JOIN tasks t USING (task_id)
 WHERE c.status = 'offered' AND c.kind <> 'merge' AND t.gshare = :gshare AND t.resource_type = :resource_type;

-- name: share_is_throttled$
SELECT throttled FROM shares WHERE gshare = :gshare;

-- name: tasks_of_jobs
SELECT DISTINCT task_id FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL ORDER BY task_id;

-- name: lock_jobs
SELECT job_id, task_id, chunk_id, status, job_type, queue, resource_type, gshare, user_name, core_count, error_source,
       error_code, attempt_number
  FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL ORDER BY job_id FOR NO KEY UPDATE;

-- name: producers_of_merges
-- Jobs whose unmerged outputs are the input of these merge jobs.
SELECT DISTINCT f.out_job_id AS job_id
  FROM jobs j JOIN job_files jf ON jf.job_id = j.job_id AND jf.is_master JOIN task_files f ON f.file_id = jf.file_id
 WHERE j.job_id = ANY(:job_ids::bigint[]) AND j.job_type = 'merge' AND j.results_applied_at IS NULL
   AND f.out_job_id IS NOT NULL;

-- name: mark_applied!
UPDATE jobs SET results_applied_at = orrery_now() WHERE job_id = ANY(:job_ids::bigint[]) AND results_applied_at IS NULL;

-- name: count_ended_jobs!
INSERT INTO task_job_counts AS c (task_id, n_finished, n_failed) VALUES (:task_id, :n_finished, :n_failed)
ON CONFLICT (task_id) DO UPDATE SET n_finished = c.n_finished + excluded.n_finished,
       n_failed = c.n_failed + excluded.n_failed;

-- name: end_merging_jobs
UPDATE jobs SET status = :to_status::text, state_change_time = orrery_now(), end_time = orrery_now(),
       error_source = :error_source, error_dialog = :error_dialog
 WHERE job_id = ANY(:job_ids::bigint[]) AND status = 'merging'
RETURNING job_id, task_id, queue, resource_type, gshare, user_name, core_count;

-- name: files_of_jobs
SELECT jf.job_id, jf.is_master, jf.type AS dataset_type, f.file_id, f.dataset_id, f.type, f.status, f.lfn, f.attempt_nr,
       f.max_attempt, f.failed_attempt, f.max_failure, f.job_id AS owner_id, f.out_job_id, f.ram_count,
       coalesce(f.n_events, 0) AS events,
       -- an output has no size before it is registered
       f.fsize IS NOT NULL AS is_registered
  FROM job_files jf JOIN task_files f USING (file_id)
 WHERE jf.job_id = ANY(:job_ids::bigint[]) ORDER BY f.file_id, jf.job_id;

-- name: end_inputs
UPDATE task_files f SET status = n.status, attempt_nr = n.attempt_nr, max_attempt = n.max_attempt,
       failed_attempt = n.failed_attempt, ram_count = n.ram_count
  FROM unnest(:ids::bigint[], :job_ids::bigint[], :statuses::text[], :attempts::int[], :max_attempts::int[],
              :failed::int[], :rams::bigint[])
       AS n (file_id, job_id, status, attempt_nr, max_attempt, failed_attempt, ram_count)
 WHERE f.file_id = n.file_id AND f.status = 'running' AND f.job_id = n.job_id
RETURNING f.file_id, f.dataset_id, f.type, f.status,
          coalesce(f.n_events, 0) AS events;

-- name: end_outputs
UPDATE task_files f SET status = n.status, fsize = coalesce(n.fsize, f.fsize), guid = coalesce(n.guid, f.guid),
       checksum = coalesce(n.checksum, f.checksum), boundary_id = coalesce(n.boundary_id, f.boundary_id),
       max_attempt = coalesce(n.max_attempt, f.max_attempt)
  FROM unnest(:ids::bigint[], :from_statuses::text[], :statuses::text[], :sizes::bigint[], :guids::text[],
              :checksums::text[], :boundaries::bigint[], :max_attempts::int[])
       AS n (file_id, from_status, status, fsize, guid, checksum, boundary_id, max_attempt)
 WHERE f.file_id = n.file_id AND f.status = n.from_status
RETURNING f.file_id, f.dataset_id, f.type, n.from_status, f.status,
          coalesce(f.n_events, 0) AS events;

-- name: reports_of_jobs
SELECT job_id, report FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]);

-- name: on_hold_files
-- Unmerged outputs of jobs that still wait in state merging, by queue.
SELECT j.queue, f.file_id, f.dataset_id, f.type, f.lfn, coalesce(f.fsize, 0) AS fsize, f.n_events, f.start_event,
       f.end_event, f.first_event, f.boundary_id, f.lumi_block_nr, f.scope, f.guid, f.checksum, f.attempt_nr,
       f.ram_count, f.job_id, f.out_job_id
  FROM task_files f JOIN jobs j ON j.job_id = f.boundary_id
 WHERE f.task_id = :task_id AND f.status = 'ready' AND f.boundary_id IS NOT NULL
   AND f.type IN ('trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log') AND j.status = 'merging'
 ORDER BY j.queue, j.job_id, f.file_id;

-- name: queues_with_unmerged_work
-- Queues of the list where jobs of the task may still end in state merging.
SELECT q.queue FROM unnest(:queues::text[]) AS q (queue)
 WHERE EXISTS (SELECT FROM jobs j WHERE j.task_id = :task_id AND j.status = ANY(:live::text[]) AND j.queue = q.queue
                  AND j.job_type <> 'merge');

-- name: unmerged_outputs_of
SELECT file_id, dataset_id, type, status, boundary_id, out_job_id FROM task_files
 WHERE task_id = :task_id AND out_job_id = ANY(:job_ids::bigint[])
   AND type IN ('trn_output', 'trn_log', 'tmpl_trn_output', 'tmpl_trn_log')
 ORDER BY file_id;

-- name: orphaned_outputs
SELECT f.file_id FROM task_files f
 WHERE f.file_id = ANY(:ids::bigint[]) AND f.status = 'ready'
   AND NOT EXISTS (SELECT FROM jobs j WHERE j.job_id = f.boundary_id AND j.status = 'merging')
 ORDER BY f.file_id;

-- name: live_jobs$
SELECT (SELECT count(*) FROM (SELECT FROM jobs WHERE task_id = :task_id AND status = ANY(:live::text[]) LIMIT 10000) l)
     + (SELECT count(*) FROM (SELECT FROM jobs WHERE task_id = :task_id AND results_applied_at IS NULL
           AND status IN ('finished', 'failed', 'closed', 'cancelled') LIMIT 10000) e)
     + (SELECT count(*) FROM chunks WHERE task_id = :task_id AND status = 'offered');

-- name: has_unfinished_input$
SELECT EXISTS (SELECT FROM task_files WHERE dataset_id = ANY(:dataset_ids::bigint[])
                  AND status IN ('ready', 'picked', 'running', 'pending', 'staging'));

-- name: scout_progress^
SELECT count(*) FILTER (WHERE jf.is_master AND j.status IN ('finished', 'merging'))::int AS ok_files,
       count(DISTINCT j.job_id) FILTER (WHERE j.status IN ('finished', 'merging'))::int AS ok_jobs,
       count(*) FILTER (WHERE jf.is_master AND j.status = ANY(:live::text[]) AND j.status <> 'merging')::int
           AS live_files,
       count(DISTINCT j.job_id) FILTER (WHERE j.status = ANY(:live::text[]) AND j.status <> 'merging')::int
           AS live_jobs,
       count(DISTINCT j.job_id) FILTER (WHERE j.status = 'failed')::int AS failed_jobs
  FROM jobs j JOIN job_files jf USING (job_id) WHERE j.task_id = :task_id AND j.job_type = 'scout';

-- name: scout_reports
SELECT j.job_id, j.queue, j.resource_type, j.core_count, j.start_time, coalesce(j.end_time, j.state_change_time) AS
       end_time, r.report, i.n_events, i.n_unknown, i.n_bytes
  FROM jobs j JOIN job_reports r USING (job_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS n_events,
              count(*) FILTER (WHERE f.n_events IS NULL)::int AS n_unknown,
              coalesce(sum(f.fsize), 0)::bigint AS n_bytes
         FROM job_files jf JOIN task_files f USING (file_id) WHERE jf.job_id = j.job_id AND jf.is_master) i
 WHERE j.task_id = :task_id AND j.job_type = 'scout' AND j.status IN ('finished', 'merging')
 ORDER BY j.job_id LIMIT 1000;

-- name: store_measured!
UPDATE tasks SET ram_count = coalesce(:ram_count, ram_count), ram_unit = coalesce(:ram_unit, ram_unit),
       cpu_time = coalesce(:cpu_time, cpu_time), cpu_time_unit = coalesce(:cpu_time_unit, cpu_time_unit),
       walltime = coalesce(:walltime, walltime), walltime_unit = coalesce(:walltime_unit, walltime_unit),
       io_intensity = coalesce(:io_intensity, io_intensity),
       io_intensity_unit = coalesce(:io_intensity_unit, io_intensity_unit),
       disk_io = coalesce(:disk_io, disk_io), disk_io_unit = coalesce(:disk_io_unit, disk_io_unit),
       out_disk_count = coalesce(:out_disk_count, out_disk_count),
       out_disk_unit = coalesce(:out_disk_unit, out_disk_unit),
       work_disk_count = coalesce(:work_disk_count, work_disk_count),
       work_disk_unit = coalesce(:work_disk_unit, work_disk_unit), measured_units = :measured_units
 WHERE task_id = :task_id;

-- name: idle_tasks
SELECT task_id
  FROM (SELECT task_id, retry_at FROM tasks WHERE retry_at <= orrery_now() AND status = ANY(:statuses::text[])
        UNION ALL
        SELECT c.task_id, c.retry_at FROM chunks c JOIN tasks t USING (task_id)
         WHERE c.retry_at <= orrery_now() AND t.status = ANY(:statuses::text[])) due
 GROUP BY task_id ORDER BY min(retry_at), task_id LIMIT :count;

-- name: archive_jobs
WITH old AS MATERIALIZED (
    SELECT j.job_id FROM jobs j
     WHERE j.results_applied_at < :before AND j.status IN ('finished', 'failed', 'closed', 'cancelled')
       AND NOT (j.job_type = 'scout' AND EXISTS (SELECT FROM tasks t WHERE t.task_id = j.task_id
                  AND (t.status = 'scouting' OR t.old_status = 'scouting')))
     ORDER BY j.job_id LIMIT :count FOR UPDATE OF j SKIP LOCKED),
gone AS (DELETE FROM jobs j USING old o WHERE j.job_id = o.job_id
         RETURNING j.job_id, j.task_id, j.chunk_id, j.shape_id, j.current_priority, j.core_count, j.attempt_number,
                   j.status, j.queue, j.resource_type, j.gshare, j.user_name, j.prod_source_label, j.job_type,
                   j.creation_time, j.state_change_time, j.start_time, j.end_time, j.heartbeat_at,
                   j.results_applied_at, j.worker, j.command, j.error_source, j.error_code, j.error_dialog)
INSERT INTO jobs_archive (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,
       queue, resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
       start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code, error_dialog,
       archived_at)
SELECT *, orrery_now() FROM gone ORDER BY job_id
RETURNING job_id;

-- name: forget_specs!
-- Looks at two days of the archive only, so that a long history costs nothing.
DELETE FROM job_specs s
 USING (SELECT a.job_id FROM jobs_archive a
         WHERE a.archived_at < :before AND a.archived_at >= :before::timestamptz - interval '2 days'
           AND EXISTS (SELECT FROM job_specs kept WHERE kept.job_id = a.job_id)
         LIMIT :count) gone
 WHERE s.job_id = gone.job_id;

-- name: adverts_of_sites
-- What these sites advertised within the last minutes.
SELECT site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches, requirements,
       advertisement, advertised_at, expires_at
FROM site_adverts WHERE site = ANY(:sites::text[]) AND expires_at > orrery_now() ORDER BY site;

-- name: requirements_of_task$
-- The task's own expression about sites.
SELECT split_rule ->> 'requirements' FROM tasks WHERE task_id = :task_id;

-- name: count_matches
-- Compare and set: nothing if somebody else counted, or the site advertised, since it was read.
UPDATE site_adverts SET current_matches = current_matches + :n_jobs::int
WHERE site = :site AND current_matches = :seen::int AND advertised_at = :advertised_at::timestamptz
RETURNING site;
