-- name: no_longer_needed
-- Datasets that were made to be used and deleted, of which one task wrote or read some, if nobody needs them any more: no
-- task that writes or reads them lives, and no child of a writer. Indexes task_datasets_task, task_datasets_name.
SELECT DISTINCT w.dataset_name, w.vo, coalesce(k.scope, w.scope) AS scope
  FROM task_datasets own
  JOIN task_datasets w ON w.dataset_name = own.dataset_name AND w.type = ANY(:output_types::text[])
   AND w.attributes ->> 'transient' = 'true'
  JOIN catalogue.datasets k ON k.name = w.dataset_name AND k.expires_at IS NULL
 WHERE own.task_id = :task_id AND own.type = ANY(:output_types::text[] || 'input'::text)
   AND NOT EXISTS (SELECT FROM task_datasets o JOIN tasks t USING (task_id)
                    WHERE o.dataset_name = w.dataset_name AND t.status <> ALL(:over::text[]))
   AND NOT EXISTS (SELECT FROM tasks child WHERE child.parent_tid = w.task_id AND child.status <> ALL(:over::text[]))
 ORDER BY w.dataset_name;

-- name: expire_datasets
-- They may be deleted after so long.
UPDATE catalogue.datasets SET expires_at = orrery_now() + make_interval(secs => :lifetime_s::float8)
 WHERE name = ANY(:names::text[]) AND expires_at IS NULL;

-- name: expired_dataset
-- One whose time is over, of the built-in catalogue, for one who deletes. It is needed by a task that reads it, or by a
-- child of one that wrote it: a child that is not defined yet has no datasets. Indexes datasets_expire,
-- task_datasets_name, tasks_parent.
SELECT d.dataset_id, d.name,
       EXISTS (SELECT FROM task_datasets i JOIN tasks t USING (task_id)
                WHERE i.dataset_name = d.name AND i.type = 'input' AND t.status <> ALL(:over::text[]))
       OR EXISTS (SELECT FROM task_datasets w JOIN tasks child ON child.parent_tid = w.task_id
                   WHERE w.dataset_name = d.name AND w.type = ANY(:output_types::text[])
                     AND child.status <> ALL(:over::text[])) AS is_needed
  FROM catalogue.datasets d WHERE d.expires_at < orrery_now() AND d.vo IS NULL AND d.kind = 'dataset'
 ORDER BY d.expires_at, d.dataset_id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: needed_outside
-- Datasets of catalogues outside that have a lifetime there, and that a task reads again before it is over. They have
-- none any more. Indexes datasets_expire, task_datasets_name.
UPDATE catalogue.datasets d SET expires_at = NULL
  FROM (SELECT k.dataset_id, r.task_id FROM catalogue.datasets k
         CROSS JOIN LATERAL (SELECT min(i.task_id) AS task_id FROM task_datasets i JOIN tasks t USING (task_id)
                              WHERE i.dataset_name = k.name AND i.type = 'input' AND t.status <> ALL(:over::text[])) r
         WHERE k.expires_at > orrery_now() AND k.vo IS NOT NULL AND r.task_id IS NOT NULL
         ORDER BY k.dataset_id LIMIT :at_most::int FOR UPDATE OF k SKIP LOCKED) needed
 WHERE d.dataset_id = needed.dataset_id RETURNING d.vo, d.scope, d.name, needed.task_id;

-- name: keep_longer
-- Somebody reads it after all.
UPDATE catalogue.datasets SET expires_at = orrery_now() + make_interval(secs => :lifetime_s::float8)
 WHERE dataset_id = :dataset_id;

-- name: used_copies
-- Copies for one use whose task has ended, or whose time is over, in the order of their datasets; with a live task that
-- has the file now, and whether another storage has it too. The tasks are found one by one along the index: a task has
-- many copies. Indexes brought_copies_of_task, brought_copies_expire, task_datasets_name,
-- task_files_unit.
WITH RECURSIVE owner AS (
        SELECT (SELECT min(task_id) FROM catalogue.brought_copies) AS task_id
        UNION ALL
        SELECT (SELECT min(b.task_id) FROM catalogue.brought_copies b WHERE b.task_id > o.task_id)
          FROM owner o WHERE o.task_id IS NOT NULL),
     found AS (
        (SELECT b.file_id, b.storage FROM owner o JOIN tasks t USING (task_id)
          CROSS JOIN LATERAL (SELECT * FROM catalogue.brought_copies one WHERE one.task_id = o.task_id
                               ORDER BY one.file_id LIMIT :at_most::int) b
          WHERE t.status = ANY(:over::text[]) LIMIT :at_most::int)
        UNION
        (SELECT file_id, storage FROM catalogue.brought_copies WHERE expires_at < orrery_now()
          ORDER BY expires_at LIMIT :at_most::int))
SELECT b.file_id, b.storage, b.request_id, d.name AS dataset, f.lfn,
       (SELECT min(u.task_id) FROM task_datasets i JOIN task_files u USING (dataset_id)
         WHERE i.dataset_name = d.name AND i.type = 'input' AND u.lfn = f.lfn
           AND u.status IN ('picked', 'running')) AS used_by,
       EXISTS (SELECT FROM catalogue.dataset_replicas r
                WHERE r.dataset_id = f.dataset_id AND r.storage <> b.storage AND r.complete)
       OR EXISTS (SELECT FROM catalogue.file_replicas r WHERE r.file_id = b.file_id AND r.storage <> b.storage)
           AS is_elsewhere
  FROM found JOIN catalogue.brought_copies b USING (file_id, storage)
  LEFT JOIN catalogue.files f USING (file_id) LEFT JOIN catalogue.datasets d ON d.dataset_id = f.dataset_id
 ORDER BY f.dataset_id, b.file_id, b.storage LIMIT :at_most::int FOR UPDATE OF b SKIP LOCKED;

-- name: hand_over_copies
-- Copies that another task uses now are for that one.
UPDATE catalogue.brought_copies b
   SET task_id = n.task_id, expires_at = orrery_now() + make_interval(secs => :lifetime_s::float8)
  FROM unnest(:file_ids::bigint[], :storages::text[], :task_ids::bigint[]) AS n (file_id, storage, task_id)
 WHERE b.file_id = n.file_id AND b.storage = n.storage;

-- name: forget_brought
-- They were deleted, or stay.
DELETE FROM catalogue.brought_copies b USING unnest(:file_ids::bigint[], :storages::text[]) AS n (file_id, storage)
 WHERE b.file_id = n.file_id AND b.storage = n.storage;

-- name: keep_rules
-- Rules that hold the last copy of a file are never cancelled.
UPDATE catalogue_requests SET details = details || '{"has_last_copy": true}' WHERE request_id = ANY(:request_ids::bigint[]);

-- name: rules_without_use
-- Rules of catalogues outside of which no copy is used any more, and that nothing is waited for. Index
-- brought_copies_of_request.
SELECT r.request_id, r.vo, r.task_id, r.rule_id FROM catalogue_requests r
 WHERE r.request_id = ANY(:request_ids::bigint[]) AND r.rule_id IS NOT NULL
   AND r.status NOT IN ('open', 'moving') AND NOT coalesce((r.details ->> 'has_last_copy')::boolean, false)
   AND NOT EXISTS (SELECT FROM catalogue.brought_copies b WHERE b.request_id = r.request_id) ORDER BY r.request_id;
