-- name: hold_chunk
-- What was in this chunk, of raised memory or to be merged, is not tried before a time.
UPDATE chunks SET retry_at = :retry_at WHERE chunk_id = :chunk_id;

-- name: held_memory
-- Memory whose time has not come.
SELECT DISTINCT dataset_id, ram_mb FROM chunks WHERE task_id = :task_id AND retry_at > orrery_now() AND kind <> 'merge';

-- name: release_memory
-- Input that waits of a task may be tried: all, or of one memory.
UPDATE chunks SET retry_at = NULL
 WHERE task_id = :task_id AND retry_at IS NOT NULL AND kind <> 'merge' AND (:ram_mb::bigint IS NULL OR ram_mb = :ram_mb::bigint);

-- name: why_it_waits
-- Until when a task of which nothing runs is left alone, and what the last decision that made it wait said.
-- Indexes jobs_task, chunks_task.
SELECT h.outcome, h.reason, least(t.retry_at, held.retry_at) AS retry_at, h.numbers ? 'ran_out' AS ran_out
  FROM tasks t
  CROSS JOIN LATERAL (SELECT outcome, reason, numbers FROM generation_history
                       WHERE task_id = t.task_id AND outcome IN ('throttled', 'unplaceable', 'unsplittable')
                       ORDER BY decision_id DESC LIMIT 1) h
  CROSS JOIN LATERAL (SELECT min(retry_at) AS retry_at FROM chunks
                       WHERE task_id = t.task_id AND retry_at > orrery_now() AND kind <> 'merge') held
 WHERE t.task_id = :task_id AND (t.retry_at > orrery_now() OR held.retry_at IS NOT NULL);

-- name: open_all_files
-- All input of a task may be used. All its datasets are taken, in order of id, like everybody does who takes several.
WITH held AS MATERIALIZED (
    SELECT dataset_id FROM task_datasets WHERE task_id = :task_id ORDER BY dataset_id FOR NO KEY UPDATE)
UPDATE task_datasets d SET n_files_to_be_used = d.n_files, modification_time = orrery_now()
  FROM held
 WHERE d.dataset_id = held.dataset_id AND d.type IN ('input', 'pseudo_input', 'pp_input')
   AND d.n_files_to_be_used <> d.n_files
RETURNING d.dataset_id, d.n_files;

-- name: open_files_in_use
-- Files that were picked beyond what was open, because their boundary is not split, count as open.
UPDATE task_datasets SET n_files_to_be_used = n_files_used, modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND n_files_to_be_used < n_files_used;

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

-- name: files_of_chunk
-- The picked files of a chunk. Index task_files_chunk.
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id, avoided_site
  FROM task_files WHERE chunk_id = :chunk_id AND status = 'picked' ORDER BY file_id;

-- name: has_more
-- Whether a dataset has ready units of the task's memory, or of one that was raised, besides those of chunks.
SELECT EXISTS (SELECT FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready'
                  AND CASE WHEN :ram_mb::bigint IS NULL THEN ram_count IS NULL OR ram_count <= :task_ram_mb::bigint
                           ELSE ram_count = :ram_mb::bigint END);

-- name: awaited_datasets
-- Of these datasets, those of which files wait for a parent or for tape. Index task_files_state.
SELECT d.dataset_id FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
 WHERE EXISTS (SELECT FROM task_files f WHERE f.dataset_id = d.dataset_id AND f.status IN ('pending', 'staging'))
 ORDER BY d.dataset_id;

-- name: leave_out
-- Ready units that no job is ever made of.
UPDATE task_files SET status = 'failed' WHERE file_id = ANY(:ids::bigint[]) AND status = 'ready'
RETURNING file_id, dataset_id, type, coalesce(n_events, 0) AS events;

-- name: ready_files
-- The next unused files of a dataset. Index task_files_state.
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id
  FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready'
 ORDER BY file_id LIMIT :n_files OFFSET :after::bigint;

-- name: ready_files_of_boundaries
-- The unused files of a dataset for the jobs of these boundaries. Index task_files_state.
SELECT file_id, dataset_id, type, lfn, coalesce(fsize, 0) AS fsize, n_events, start_event, end_event, first_event,
       boundary_id, lumi_block_nr, scope, guid, checksum, attempt_nr, ram_count, job_id, out_job_id
  FROM task_files WHERE dataset_id = :dataset_id AND status = 'ready' AND boundary_id = ANY(:boundaries::bigint[])
 ORDER BY file_id;

-- name: files_holding
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

-- name: has_unfinished_input
-- Whether some file of these datasets waits or is worked on. Index task_files_state.
SELECT EXISTS (SELECT FROM task_files WHERE dataset_id = ANY(:dataset_ids::bigint[])
                  AND status IN ('ready', 'picked', 'running', 'pending', 'staging'));

-- name: is_being_reopened
-- Whether a command on a live task has units of its input left to open again. Index reopenings_task.
SELECT EXISTS (SELECT FROM reopenings WHERE task_id = :task_id AND kind = 'live');

-- name: has_files_under_way
-- Whether files of these datasets may become ready again, or for the first time. Index task_files_state.
SELECT EXISTS (SELECT FROM task_files WHERE dataset_id = ANY(:dataset_ids::bigint[])
                  AND status IN ('picked', 'running', 'pending', 'staging'));

-- name: end_processed_inputs
-- Closed masters of which every unit is finished are done.
UPDATE task_datasets SET status = 'done', modification_time = orrery_now()
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input') AND master_id IS NULL
   AND status = ANY(:allowed::text[]) AND n_files > 0 AND n_files_finished = n_files AND state IS DISTINCT FROM 'open';

-- name: has_ready
-- Whether any unit of these datasets can be taken. Index task_files_state.
SELECT EXISTS (SELECT FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
                CROSS JOIN LATERAL (SELECT FROM task_files f
                                     WHERE f.dataset_id = d.dataset_id AND f.status = 'ready' LIMIT 1) one);
