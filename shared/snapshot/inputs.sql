-- name: task_inputs
-- The task's input; pseudo inputs have no data.
-- told by: PRODUCTION
SELECT dataset_id, dataset_name, master_id IS NULL AS is_master, type, n_files, coalesce(n_events, 0) AS n_events,
       attributes
FROM task_datasets
WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input')
ORDER BY dataset_id;

-- name: chunk_inputs
-- What the chunk held of each dataset when it was offered, whatever became of it; nothing if that was not kept.
-- told by: PRODUCTION
SELECT d.dataset_name, d.master_id IS NULL AS is_master, held.n_files, held.n_bytes
FROM chunks c
CROSS JOIN jsonb_to_recordset(c.inputs) AS held (dataset_id bigint, n_files bigint, n_bytes bigint)
JOIN task_datasets d ON d.dataset_id = held.dataset_id
WHERE c.chunk_id = :chunk_id AND d.type IN ('input', 'trn_output', 'trn_log', 'lib')
ORDER BY d.dataset_id;

-- name: secondary_inputs
-- The input of the chunk's task that follows its master.
-- told by: PRODUCTION
SELECT d.dataset_name, d.n_files, coalesce(d.n_events, 0) AS n_events, d.attributes
FROM chunks c JOIN task_datasets d USING (task_id)
WHERE c.chunk_id = :chunk_id AND d.master_id IS NOT NULL AND d.type = 'input'
ORDER BY d.dataset_id;

-- name: task_history
-- Files of the masters and those that finished; queues where the task has or had jobs: of each state index jobs_task is
-- gone through from queue to queue. The order has the index read, however large a part of all jobs the task has.
-- told by: PRODUCTION
WITH RECURSIVE known AS (
        SELECT s.status, first.queue FROM unnest(:statuses::text[]) AS s (status)
         CROSS JOIN LATERAL (SELECT queue FROM jobs j
                              WHERE j.task_id = :task_id AND j.status = s.status AND queue IS NOT NULL
                              ORDER BY j.task_id, j.status, j.queue LIMIT 1) first
        UNION ALL
        SELECT known.status, later.queue FROM known
         CROSS JOIN LATERAL (SELECT queue FROM jobs j
                              WHERE j.task_id = :task_id AND j.status = known.status AND j.queue > known.queue
                              ORDER BY j.task_id, j.status, j.queue LIMIT 1) later)
SELECT coalesce(sum(d.n_files), 0)::bigint AS n_files, coalesce(sum(d.n_files_finished), 0)::bigint AS n_finished,
       -- a job that waits for jumbo jobs has no queue
       ARRAY(SELECT queue FROM known
             UNION SELECT queue FROM queue_outcomes WHERE task_id = :task_id
             ORDER BY 1) AS queues_used
FROM task_datasets d
WHERE d.task_id = :task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input');
