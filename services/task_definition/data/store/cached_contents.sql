-- name: put_collection
-- A dataset or container that a catalogue outside has; one that is known stays, and names of other VOs are theirs.
INSERT INTO catalogue.datasets (scope, name, kind, vo)
SELECT :scope, :name, :kind, :vo
 WHERE NOT EXISTS (SELECT FROM catalogue.scopes s
                    WHERE s.scope = catalogue.owning_scope(:name) AND s.vo NOT IN ('', :vo))
ON CONFLICT (name) DO NOTHING;

-- name: collection
-- What is kept of it.
SELECT dataset_id, kind, vo, state, n_files FROM catalogue.datasets WHERE name = :name;

-- name: lock_collection
-- Counters follow the files under this lock.
SELECT dataset_id FROM catalogue.datasets WHERE dataset_id = :dataset_id FOR UPDATE;

-- name: put_files
-- A slice of a dataset's files: new ones are added, changed ones changed, others not touched.
INSERT INTO catalogue.files AS f (dataset_id, scope, lfn, size_bytes, n_events, checksum, guid, lumi_block)
SELECT :dataset_id, n.scope, n.lfn, n.size_bytes, n.n_events, n.checksum, n.guid, n.lumi_block
  FROM unnest(:scopes::text[], :lfns::text[], :sizes::bigint[], :events::bigint[], :checksums::text[], :guids::text[],
              :lumi_blocks::bigint[]) WITH ORDINALITY
       AS n (scope, lfn, size_bytes, n_events, checksum, guid, lumi_block, position)
 ORDER BY n.position
ON CONFLICT (dataset_id, lfn) DO UPDATE
   SET scope = excluded.scope, size_bytes = excluded.size_bytes, n_events = excluded.n_events,
       checksum = excluded.checksum, guid = excluded.guid, lumi_block = excluded.lumi_block
 WHERE (f.scope, f.size_bytes, f.n_events, f.checksum, f.guid, f.lumi_block)
       IS DISTINCT FROM (excluded.scope, excluded.size_bytes, excluded.n_events, excluded.checksum, excluded.guid,
                         excluded.lumi_block);

-- name: recount
-- The counters of a dataset are taken from its files; a dataset that did not change is not written.
UPDATE catalogue.datasets d
   SET n_files = c.n_files, n_bytes = c.n_bytes, n_events = c.n_events, state = :state, attributes = :attributes::jsonb
  FROM (SELECT count(*) AS n_files, coalesce(sum(size_bytes), 0)::bigint AS n_bytes,
               coalesce(sum(n_events), 0)::bigint AS n_events FROM catalogue.files WHERE dataset_id = :dataset_id) c
 WHERE d.dataset_id = :dataset_id
   AND (d.n_files, d.n_bytes, d.n_events, d.state, d.attributes)
       IS DISTINCT FROM (c.n_files, c.n_bytes, c.n_events, :state, :attributes::jsonb);

-- name: is_to_be_created
-- Whether a task waits for a dataset or container of this name to be registered. Index catalogue_requests_due.
SELECT EXISTS (SELECT FROM catalogue_requests r CROSS JOIN LATERAL jsonb_array_elements(r.details -> 'datasets') AS one
                WHERE r.status = 'open' AND r.kind = 'create' AND r.vo = :vo
                  AND :name IN (one ->> 'name', one ->> 'container'));

-- name: count_files
-- How many files are kept of a dataset.
SELECT count(*) FROM catalogue.files WHERE dataset_id = :dataset_id;

-- name: note_seen
-- Names of a slice; those that were seen before are left out.
INSERT INTO catalogue.seen_files (request_id, lfn) SELECT :request_id, lfn FROM unnest(:lfns::text[]) AS n (lfn)
ON CONFLICT DO NOTHING RETURNING lfn;

-- name: forget_seen
-- Names of a reading that is over.
DELETE FROM catalogue.seen_files WHERE request_id = :request_id;

-- name: remove_copies_of_unseen
-- Copies of files that the catalogue does not have any more.
DELETE FROM catalogue.file_replicas r USING catalogue.files f
 WHERE f.dataset_id = :dataset_id AND r.file_id = f.file_id
   AND NOT EXISTS (SELECT FROM catalogue.seen_files s WHERE s.request_id = :request_id AND s.lfn = f.lfn);

-- name: remove_unseen
-- Files that the catalogue does not have any more.
DELETE FROM catalogue.files f
 WHERE f.dataset_id = :dataset_id
   AND NOT EXISTS (SELECT FROM catalogue.seen_files s WHERE s.request_id = :request_id AND s.lfn = f.lfn);

-- name: copies_kept
-- The copies of a dataset as they are kept, with the files that partial ones have a row for.
SELECT r.storage, r.n_files, r.n_bytes, r.complete,
       (SELECT count(*) FROM catalogue.files f JOIN catalogue.file_replicas fr USING (file_id)
         WHERE NOT r.complete AND f.dataset_id = r.dataset_id AND fr.storage = r.storage) AS n_rows
  FROM catalogue.dataset_replicas r WHERE r.dataset_id = :dataset_id ORDER BY r.storage;

-- name: remove_copies
-- Rows of files at these storages.
DELETE FROM catalogue.file_replicas r USING catalogue.files f
 WHERE f.dataset_id = :dataset_id AND r.file_id = f.file_id AND r.storage = ANY(:storages::text[]);

-- name: remove_dataset_copies
-- Copies that are gone.
DELETE FROM catalogue.dataset_replicas WHERE dataset_id = :dataset_id AND storage = ANY(:storages::text[]);

-- name: put_dataset_copies
-- Copies as the catalogue has them.
INSERT INTO catalogue.dataset_replicas AS r (dataset_id, storage, n_files, n_bytes, complete)
SELECT :dataset_id, n.* FROM unnest(:storages::text[], :n_files::bigint[], :n_bytes::bigint[], :complete::boolean[])
       AS n (storage, n_files, n_bytes, complete) ORDER BY n.storage
ON CONFLICT (dataset_id, storage) DO UPDATE
   SET n_files = excluded.n_files, n_bytes = excluded.n_bytes, complete = excluded.complete
 WHERE (r.n_files, r.n_bytes, r.complete) IS DISTINCT FROM (excluded.n_files, excluded.n_bytes, excluded.complete);

-- name: put_file_copies
-- Which files a partial copy has.
INSERT INTO catalogue.file_replicas (file_id, storage)
SELECT f.file_id, n.storage FROM unnest(:lfns::text[], :storages::text[]) AS n (lfn, storage)
  JOIN catalogue.files f ON f.dataset_id = :dataset_id AND f.lfn = n.lfn ORDER BY f.file_id, n.storage
ON CONFLICT DO NOTHING;

-- name: parts
-- The datasets of a container in order.
SELECT d.name FROM catalogue.containers c JOIN catalogue.datasets d USING (dataset_id)
 WHERE c.container_id = :container_id ORDER BY c.position, d.name;

-- name: remove_parts
-- A container is filled anew.
DELETE FROM catalogue.containers WHERE container_id = :container_id;

-- name: put_parts
-- The datasets of a container in order.
INSERT INTO catalogue.containers (container_id, dataset_id, position)
SELECT :container_id, d.dataset_id, n.position
  FROM unnest(:names::text[]) WITH ORDINALITY AS n (name, position) JOIN catalogue.datasets d ON d.name = n.name
 ORDER BY n.position;

-- name: freeze_container
-- A container is as open as the catalogue says.
UPDATE catalogue.datasets SET state = :state WHERE dataset_id = :dataset_id AND state <> :state;

-- name: was_read_since
-- Whether a dataset was read after a time. Index catalogue_requests_read.
SELECT EXISTS (SELECT FROM catalogue_requests r WHERE r.vo = :vo AND r.kind = 'read' AND r.subject = :subject
                                                 AND r.status = 'done' AND r.done_at > :since);

-- name: scope_of
-- The scope of a dataset that is known.
SELECT scope FROM catalogue.datasets WHERE name = :name;
