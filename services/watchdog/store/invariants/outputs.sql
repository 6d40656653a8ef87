-- Invariants of outputs: I14. Every query returns task_id, entity, entity_id, sentence.

-- name: i14_finished_output_not_in_catalogue
-- A finished output is in the catalogue, with the size and checksum that the contents have. When its task ends, a log of
-- which no storage has a copy is taken out. A transient dataset is deleted when nobody needs it any more.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('output %s of dataset %s is finished with %s bytes and checksum %s; the catalogue has %s', f.lfn,
              d.dataset_name, coalesce(f.fsize::text, 'unknown'), coalesce(f.checksum, '(none)'),
              CASE WHEN c.file_id IS NULL THEN 'no such file'
                   ELSE format('%s bytes, checksum %s', c.size_bytes, coalesce(c.checksum, '(none)')) END) AS sentence
  FROM task_datasets d
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'finished'
  LEFT JOIN catalogue.datasets known ON known.name = d.dataset_name
  LEFT JOIN LATERAL (SELECT * FROM catalogue.files one
                      WHERE one.dataset_id = known.dataset_id AND one.lfn = f.lfn LIMIT 1) c ON true
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND (c.file_id IS NULL OR (c.size_bytes, c.checksum) IS DISTINCT FROM (f.fsize, f.checksum))
   AND NOT (c.file_id IS NULL AND d.type = 'log' AND d.status IN ('done', 'finished', 'failed'))
   AND NOT (coalesce(known.expires_at IS NOT NULL, true) AND d.attributes ->> 'transient' = 'true');

-- name: i14_catalogue_has_unfinished_output
-- Of a task that has ended the catalogue has finished outputs only.
SELECT f.task_id, 'file' AS entity, f.file_id AS entity_id,
       format('the catalogue has %s in dataset %s, but the output is %s and its task %s', f.lfn, d.dataset_name,
              f.status, t.status) AS sentence
  FROM tasks t
  JOIN task_datasets d ON d.task_id = t.task_id
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status <> 'finished'
  JOIN catalogue.datasets known ON known.name = d.dataset_name
 CROSS JOIN LATERAL (SELECT FROM catalogue.files one
                      WHERE one.dataset_id = known.dataset_id AND one.lfn = f.lfn LIMIT 1) c
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND d.type IN ('output', 'log', 'trn_output', 'trn_log')
   AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted');
