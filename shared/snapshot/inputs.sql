-- name: task_inputs(task_id)
-- The task's input; pseudo inputs have no data.
SELECT dataset_id, dataset_name, master_id IS NULL AS is_master, type, n_files, coalesce(n_events, 0) AS n_events,
       attributes
FROM task_datasets
WHERE task_id = :task_id AND type IN ('input', 'pp_input', 'pseudo_input')
ORDER BY dataset_id;

-- name: chunk_inputs(chunk_id)
-- What the chunk holds of each dataset: a file that was cut into ranges of events counts once.
SELECT d.dataset_id, d.dataset_name, d.master_id IS NULL AS is_master, count(*) AS n_files,
       coalesce(sum(w.fsize), 0)::bigint AS n_bytes
FROM (SELECT DISTINCT ON (dataset_id, lfn) dataset_id, lfn, fsize
      FROM task_files WHERE chunk_id = :chunk_id AND status = 'picked'
      ORDER BY dataset_id, lfn) w
JOIN task_datasets d USING (dataset_id)
WHERE d.type IN ('input', 'pp_input', 'trn_output', 'trn_log', 'lib')
GROUP BY d.dataset_id, d.dataset_name, d.master_id
ORDER BY d.dataset_id;

-- name: secondary_inputs(chunk_id)
-- The input of the chunk's task that follows its master.
SELECT d.dataset_name, d.n_files, coalesce(d.n_events, 0) AS n_events, d.attributes
FROM chunks c JOIN task_datasets d USING (task_id)
WHERE c.chunk_id = :chunk_id AND d.master_id IS NOT NULL AND d.type IN ('input', 'pp_input')
ORDER BY d.dataset_id;
