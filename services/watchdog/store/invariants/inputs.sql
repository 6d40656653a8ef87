-- Invariants of input: I14, I15. Every query returns task_id, entity, entity_id, sentence.

-- name: i14_input_not_in_catalogue
-- What jobs may take of a task's input is in the catalogue, with the size and checksum that the contents have, unless the
-- catalogue changed since the input was read.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('input %s of dataset %s is ready with %s bytes and checksum %s; the catalogue has %s', f.lfn,
              d.dataset_name, coalesce(f.fsize::text, 'unknown'), coalesce(f.checksum, '(none)'),
              CASE WHEN k.file_id IS NULL THEN 'no such file' WHEN k.is_corrupted THEN 'it as corrupted'
                   ELSE format('%s bytes, checksum %s', k.size_bytes, coalesce(k.checksum, '(none)')) END) AS sentence
  FROM tasks t
  JOIN task_datasets d ON d.task_id = t.task_id
  JOIN catalogue.datasets c ON c.name = d.dataset_name AND c.contents_version = d.contents_version
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'ready'
  LEFT JOIN catalogue.files k ON k.dataset_id = c.dataset_id AND k.lfn = f.lfn
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.status IN ('ready', 'scouting', 'scouted', 'running')
   AND d.type = 'input' AND d.status = 'ready'
   AND (k.file_id IS NULL OR k.is_corrupted OR (k.size_bytes, k.checksum) IS DISTINCT FROM (f.fsize, f.checksum));

-- name: i15_ended_with_open_input
-- A task that runs until its input is closed has no open input when it ends, unless it was told to finish.
SELECT t.task_id, 'dataset' AS entity, d.dataset_id AS entity_id,
       format('task %s is %s and runs until its input is closed, but %s is open', t.task_id, t.status, d.dataset_name)
       AS sentence
  FROM tasks t JOIN task_datasets d ON d.task_id = t.task_id
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.status IN ('done', 'finished')
   AND coalesce(t.split_rule ->> 'runUntilClosed', t.split_rule ->> 'noWaitParent', 'false') <> 'false'
   AND t.command IS DISTINCT FROM 'finish'
   AND d.type = 'input' AND d.master_id IS NULL AND d.state = 'open' AND d.status NOT IN ('removed', 'broken');

-- name: i15_ended_with_input_under_way
-- No chunk or job has input of a task that ended; of one that is done nothing is left that could be processed.
SELECT t.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('task %s is %s, but its input %s is %s', t.task_id, t.status, f.lfn, f.status) AS sentence
  FROM tasks t JOIN task_datasets d ON d.task_id = t.task_id JOIN task_files f ON f.dataset_id = d.dataset_id
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL AND d.status <> 'removed'
   AND (f.status IN ('picked', 'running')
        OR t.status = 'done' AND f.status IN ('ready', 'pending', 'staging', 'missing'));
