-- name: import_datasets
-- New datasets and containers, in the order of the file; known names stay as they are.
-- done for: WRITERS
INSERT INTO catalogue.datasets (scope, name, kind, attributes)
SELECT new.scope, new.name, new.kind, new.attributes
  FROM unnest(:scopes::text[], :names::text[], :kinds::text[], :attributes::jsonb[])
       WITH ORDINALITY AS new (scope, name, kind, attributes, position)
 ORDER BY new.position
ON CONFLICT (name) DO NOTHING;

-- name: import_files
-- Into open datasets only: frozen ones have what they have.
-- done for: WRITERS
INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events, checksum, guid, lumi_block, first_event)
SELECT d.dataset_id, d.scope, f.lfn, f.size_bytes, f.n_events, f.checksum, f.guid, f.lumi_block, f.first_event
  FROM catalogue.datasets d,
       unnest(:lfns::text[], :sizes::bigint[], :events::bigint[], :checksums::text[], :guids::text[],
              :lumi_blocks::bigint[], :first_events::bigint[])
       WITH ORDINALITY AS f (lfn, size_bytes, n_events, checksum, guid, lumi_block, first_event, position)
 WHERE d.name = :name AND d.state = 'open' AND d.kind = 'dataset'
 ORDER BY f.position
ON CONFLICT (dataset_id, lfn) DO NOTHING;

-- name: recount
-- The counters of a dataset are taken from its files.
-- done for: WRITERS
UPDATE catalogue.datasets d SET n_files = c.n_files, n_bytes = c.n_bytes, n_events = c.n_events
  FROM (SELECT count(*) AS n_files, coalesce(sum(f.size_bytes), 0)::bigint AS n_bytes,
               coalesce(sum(f.n_events), 0)::bigint AS n_events
          FROM catalogue.files f JOIN catalogue.datasets o USING (dataset_id) WHERE o.name = :name) c
 WHERE d.name = :name AND d.state = 'open' AND d.kind = 'dataset';

-- name: import_complete_replicas
-- A dataset is completely at these storages.
-- done for: WRITERS
INSERT INTO catalogue.dataset_replicas (dataset_id, storage, n_files, n_bytes, complete)
SELECT d.dataset_id, s.storage, d.n_files, d.n_bytes, true
  FROM catalogue.datasets d, unnest(:storages::text[]) AS s (storage) WHERE d.name = :name ORDER BY s.storage
ON CONFLICT (dataset_id, storage) DO UPDATE
   SET n_files = excluded.n_files, n_bytes = excluded.n_bytes, complete = true;

-- name: import_container
-- Datasets become members of a container, in the order of the file.
-- done for: WRITERS
INSERT INTO catalogue.containers (container_id, dataset_id, position)
SELECT c.dataset_id, d.dataset_id, n.position
  FROM catalogue.datasets c, unnest(:datasets::text[]) WITH ORDINALITY AS n (name, position)
  JOIN catalogue.datasets d ON d.name = n.name AND d.kind = 'dataset'
 WHERE c.name = :name AND c.kind = 'container'
ON CONFLICT DO NOTHING;

-- name: list_datasets
-- Datasets and containers whose names match, for people: MEMBERS of these VOs (NULL: of all), or opened for everybody.
-- told by: MEMBERS
SELECT d.name, d.scope, d.kind, d.state, d.n_files, d.n_bytes, d.n_events, d.created_at,
       coalesce(d.vo, s.vo, '') AS vo
  FROM catalogue.datasets d LEFT JOIN catalogue.scopes s ON s.scope = d.owning_scope
 WHERE (:pattern::text IS NULL OR d.name LIKE :pattern)
   AND (:common_pattern::text IS NULL  -- not by the index, which has most names for it
        OR (d.name || '' LIKE :common_pattern AND d.dataset_id > :common_after::bigint))
   AND (:vos::text[] IS NULL OR d.readable_by_all OR coalesce(d.vo, s.vo, '') = ''
        OR coalesce(d.vo, s.vo) = ANY(:vos))
 ORDER BY d.name LIMIT :at_most::int;

-- name: newest_names
-- Names of the newest datasets and containers; the primary key.
-- told by: nobody; it decides how names are looked for
SELECT dataset_id, name FROM catalogue.datasets ORDER BY dataset_id DESC LIMIT :at_most::int;

-- name: files_alike
-- Of these files, how many a dataset has with their names and sizes.
-- told by: nobody; it decides whether a file is the same
SELECT count(*)
  FROM unnest(:lfns::text[], :sizes::bigint[]) AS n (lfn, size_bytes)
  JOIN catalogue.datasets d ON d.name = :name
  JOIN catalogue.files f ON f.dataset_id = d.dataset_id AND f.lfn = n.lfn AND f.size_bytes = n.size_bytes;

-- name: files_of_dataset
-- The files of a dataset in the order they were added, for people.
-- told by: MEMBERS
SELECT f.lfn, f.size_bytes, f.n_events, f.checksum, f.guid, f.lumi_block, f.first_event
  FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)
 WHERE d.name = :name ORDER BY f.file_id LIMIT :at_most::int;
