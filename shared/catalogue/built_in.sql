-- name: find_datasets
-- The named datasets and containers, and the datasets of those containers. Of those that belong to a VO, only what the
-- VO :vo may read; NULL: all.
-- told by: MEMBERS
WITH named AS (SELECT dataset_id FROM catalogue.datasets WHERE name = ANY(:names::text[])),
     wanted AS (
        SELECT dataset_id FROM named
        UNION SELECT c.dataset_id FROM catalogue.containers c JOIN named n ON n.dataset_id = c.container_id),
     told AS (
        SELECT d.*, coalesce(d.vo, s.vo, '') AS of_vo, coalesce(s.owner, '') AS owner
          FROM wanted JOIN catalogue.datasets d USING (dataset_id)
          LEFT JOIN catalogue.scopes s ON s.scope = d.owning_scope
         WHERE :vo::text IS NULL OR d.readable_by_all OR coalesce(d.vo, s.vo, '') IN ('', :vo))
SELECT d.name, d.scope, d.kind, d.state, d.n_files, d.n_bytes, d.n_events, d.attributes, d.of_vo, d.owner,
       d.readable_by_all,
       (SELECT array_agg(part.name ORDER BY c.position, part.name) FROM catalogue.containers c
          JOIN told part ON part.dataset_id = c.dataset_id
         WHERE c.container_id = d.dataset_id) AS constituents
  FROM told d ORDER BY d.name;

-- name: matching_datasets
-- The datasets whose names are like a pattern, of what VO :vo may read; NULL: of all. In order of name,
-- one more than a task may read so.
-- told by: MEMBERS
SELECT d.name FROM catalogue.datasets d LEFT JOIN catalogue.scopes s ON s.scope = d.owning_scope
 WHERE d.kind = 'dataset' AND d.name LIKE :pattern
   AND (:vo::text IS NULL OR d.readable_by_all OR coalesce(d.vo, s.vo, '') IN ('', :vo))
 ORDER BY d.name LIMIT :at_most;

-- name: find_replicas
-- The copies of datasets, whole or in part.
-- told by: MEMBERS
SELECT d.name, r.storage, r.n_files, r.n_bytes, r.complete
  FROM catalogue.datasets d JOIN catalogue.dataset_replicas r USING (dataset_id)
 WHERE d.name = ANY(:names::text[]) ORDER BY d.name, r.storage;

-- name: create_dataset
-- A new dataset or container; one of the same name stays as it is.
INSERT INTO catalogue.datasets (scope, name, kind) VALUES (:scope, :name, :kind) ON CONFLICT (name) DO NOTHING;

-- name: put_into_container
-- A dataset becomes the last of a container, once.
INSERT INTO catalogue.containers (container_id, dataset_id, position)
SELECT c.dataset_id, d.dataset_id,
       (SELECT count(*) FROM catalogue.containers o WHERE o.container_id = c.dataset_id)
  FROM catalogue.datasets c, catalogue.datasets d
 WHERE c.name = :container AND c.kind = 'container' AND d.name = :name AND d.kind = 'dataset'
ON CONFLICT DO NOTHING;

-- name: lock_datasets
-- Counters of datasets and replicas change under this lock, taken in the order of ids: no deadlocks.
SELECT 1 FROM catalogue.datasets WHERE name = ANY(:names::text[]) ORDER BY dataset_id FOR UPDATE;

-- name: insert_files
-- New files only; what was inserted comes back, so that counters follow.
INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events, checksum, guid)
SELECT d.dataset_id, d.scope, new.lfn, new.size_bytes, new.n_events, new.checksum, new.guid
  FROM unnest(:datasets::text[], :lfns::text[], :sizes::bigint[], :events::bigint[], :checksums::text[], :guids::text[])
       WITH ORDINALITY AS new (dataset, lfn, size_bytes, n_events, checksum, guid, position)
  JOIN catalogue.datasets d ON d.name = new.dataset AND d.state = 'open'
 ORDER BY d.dataset_id, new.position
ON CONFLICT (dataset_id, lfn) DO NOTHING
RETURNING file_id, dataset_id, size_bytes, n_events;

-- name: count_new_files
-- The counters of datasets follow the files that were inserted.
UPDATE catalogue.datasets d
   SET n_files = d.n_files + new.n_files, n_bytes = d.n_bytes + new.n_bytes, n_events = d.n_events + new.n_events
  FROM (SELECT dataset_id, count(*) AS n_files, sum(size_bytes)::bigint AS n_bytes,
               coalesce(sum(n_events), 0)::bigint AS n_events
          FROM unnest(:dataset_ids::bigint[], :sizes::bigint[], :events::bigint[]) AS f (dataset_id, size_bytes, n_events)
         GROUP BY dataset_id) new
 WHERE d.dataset_id = new.dataset_id;

-- name: insert_file_replicas
-- Copies at storages that do not have the dataset completely; the replicas' counters follow in the same statement.
-- done for: WRITERS
WITH wanted AS (
        SELECT f.file_id, f.dataset_id, f.size_bytes, new.storage
          FROM unnest(:datasets::text[], :lfns::text[], :storages::text[]) AS new (dataset, lfn, storage)
          JOIN catalogue.datasets d ON d.name = new.dataset
          JOIN catalogue.files f ON f.dataset_id = d.dataset_id AND f.lfn = new.lfn
         WHERE NOT EXISTS (SELECT FROM catalogue.dataset_replicas r
                            WHERE r.dataset_id = d.dataset_id AND r.storage = new.storage AND r.complete)),
     added AS (
        INSERT INTO catalogue.file_replicas (file_id, storage)
        SELECT DISTINCT file_id, storage FROM wanted ORDER BY file_id, storage
        ON CONFLICT DO NOTHING RETURNING file_id, storage)
INSERT INTO catalogue.dataset_replicas AS r (dataset_id, storage, n_files, n_bytes, complete)
SELECT w.dataset_id, w.storage, count(*), sum(w.size_bytes), false
  FROM (SELECT DISTINCT * FROM wanted) w JOIN added USING (file_id, storage)
 GROUP BY w.dataset_id, w.storage ORDER BY w.dataset_id, w.storage
ON CONFLICT (dataset_id, storage) DO UPDATE
   SET n_files = r.n_files + excluded.n_files, n_bytes = r.n_bytes + excluded.n_bytes;

-- name: note_brought
-- Copies for one use, before they are inserted: one that is there already and stays is not among them. One that is there
-- for another use is kept for this one too.
INSERT INTO catalogue.brought_copies AS b (file_id, storage, task_id, request_id, expires_at)
SELECT f.file_id, n.storage, :task_id, :request_id, orrery_now() + make_interval(secs => :lifetime_s::double precision)
  FROM unnest(:datasets::text[], :lfns::text[], :storages::text[]) AS n (dataset, lfn, storage)
  JOIN catalogue.datasets d ON d.name = n.dataset JOIN catalogue.files f ON f.dataset_id = d.dataset_id AND f.lfn = n.lfn
 WHERE NOT EXISTS (SELECT FROM catalogue.dataset_replicas r
                    WHERE r.dataset_id = d.dataset_id AND r.storage = n.storage AND r.complete)
   AND (NOT EXISTS (SELECT FROM catalogue.file_replicas r WHERE r.file_id = f.file_id AND r.storage = n.storage)
        OR EXISTS (SELECT FROM catalogue.brought_copies k WHERE k.file_id = f.file_id AND k.storage = n.storage))
 ORDER BY f.file_id, n.storage
ON CONFLICT (file_id, storage) DO UPDATE
   SET task_id = excluded.task_id, request_id = coalesce(excluded.request_id, b.request_id),
       expires_at = greatest(b.expires_at, excluded.expires_at);

-- name: keep_brought
-- Copies that are there for one use stay from now on: they are wanted for more.
-- done for: WRITERS
DELETE FROM catalogue.brought_copies b
 USING unnest(:datasets::text[], :lfns::text[], :storages::text[]) AS n (dataset, lfn, storage),
       catalogue.datasets d, catalogue.files f
 WHERE d.name = n.dataset AND f.dataset_id = d.dataset_id AND f.lfn = n.lfn
   AND b.file_id = f.file_id AND b.storage = n.storage;

-- name: drop_copies
-- Copies that are deleted at a storage; a complete one is left. The replicas' counters follow.
WITH gone AS (
        DELETE FROM catalogue.file_replicas fr
         USING unnest(:datasets::text[], :lfns::text[], :storages::text[]) AS x (dataset, lfn, storage),
               catalogue.datasets d, catalogue.files f
         WHERE d.name = x.dataset AND f.dataset_id = d.dataset_id AND f.lfn = x.lfn
           AND fr.file_id = f.file_id AND fr.storage = x.storage
        RETURNING f.dataset_id, fr.storage, f.size_bytes)
UPDATE catalogue.dataset_replicas r SET n_files = r.n_files - g.n_files, n_bytes = r.n_bytes - g.n_bytes
  FROM (SELECT dataset_id, storage, count(*) AS n_files, sum(size_bytes)::bigint AS n_bytes FROM gone
         GROUP BY dataset_id, storage) g
 WHERE r.dataset_id = g.dataset_id AND r.storage = g.storage;

-- name: drop_empty_replicas
-- A copy of which nothing is left is none.
DELETE FROM catalogue.dataset_replicas r USING catalogue.datasets d
 WHERE d.name = ANY(:names::text[]) AND r.dataset_id = d.dataset_id AND NOT r.complete AND r.n_files <= 0;

-- name: remove_file_replicas
-- Copies of files that are taken out, and what they counted for.
WITH gone AS (
        DELETE FROM catalogue.file_replicas fr
         USING unnest(:datasets::text[], :lfns::text[]) AS x (dataset, lfn), catalogue.datasets d, catalogue.files f
         WHERE d.name = x.dataset AND d.state = 'open' AND f.dataset_id = d.dataset_id AND f.lfn = x.lfn
           AND fr.file_id = f.file_id
        RETURNING f.dataset_id, fr.storage, f.size_bytes)
UPDATE catalogue.dataset_replicas r SET n_files = r.n_files - g.n_files, n_bytes = r.n_bytes - g.n_bytes
  FROM (SELECT dataset_id, storage, count(*) AS n_files, sum(size_bytes)::bigint AS n_bytes FROM gone
         GROUP BY dataset_id, storage) g
 WHERE r.dataset_id = g.dataset_id AND r.storage = g.storage;

-- name: remove_files
-- Files are taken out of open datasets, whose counters follow; how many were there.
WITH gone AS (
        DELETE FROM catalogue.files f
         USING unnest(:datasets::text[], :lfns::text[]) AS x (dataset, lfn), catalogue.datasets d
         WHERE d.name = x.dataset AND d.state = 'open' AND f.dataset_id = d.dataset_id AND f.lfn = x.lfn
        RETURNING f.dataset_id, f.size_bytes, f.n_events),
     counted AS (
        UPDATE catalogue.datasets d
           SET n_files = d.n_files - g.n_files, n_bytes = d.n_bytes - g.n_bytes, n_events = d.n_events - g.n_events
          FROM (SELECT dataset_id, count(*) AS n_files, sum(size_bytes)::bigint AS n_bytes,
                       coalesce(sum(n_events), 0)::bigint AS n_events FROM gone GROUP BY dataset_id) g
         WHERE d.dataset_id = g.dataset_id)
SELECT count(*) FROM gone;

-- name: freeze_datasets
-- Nothing is added to these datasets any more.
-- done for: WRITERS
UPDATE catalogue.datasets SET state = 'frozen' WHERE name = ANY(:names::text[]) AND state = 'open';

-- name: complete_replicas
-- Copies that have every file of a dataset are complete: they need no row for each file.
-- done for: WRITERS
WITH whole AS (
        UPDATE catalogue.dataset_replicas r SET complete = true FROM catalogue.datasets d
         WHERE d.dataset_id = r.dataset_id AND d.name = ANY(:names::text[]) AND d.kind = 'dataset'
           AND NOT r.complete AND r.n_files = d.n_files
        RETURNING r.dataset_id, r.storage)
DELETE FROM catalogue.file_replicas fr USING catalogue.files f, whole w
 WHERE f.dataset_id = w.dataset_id AND fr.file_id = f.file_id AND fr.storage = w.storage;

-- name: reopen_datasets
-- Frozen datasets take files again: complete copies become lists of files.
WITH opened AS (
        UPDATE catalogue.datasets SET state = 'open', expires_at = NULL WHERE name = ANY(:names::text[]) AND state = 'frozen'
        RETURNING dataset_id),
     partial AS (
        UPDATE catalogue.dataset_replicas r SET complete = false FROM opened o
         WHERE r.dataset_id = o.dataset_id AND r.complete RETURNING r.dataset_id, r.storage)
INSERT INTO catalogue.file_replicas (file_id, storage)
SELECT f.file_id, p.storage FROM partial p JOIN catalogue.files f USING (dataset_id) ON CONFLICT DO NOTHING;

-- name: attach_files
-- Files of other datasets become files of an open dataset too.
INSERT INTO catalogue.files (dataset_id, scope, lfn, size_bytes, n_events, checksum, guid, lumi_block)
SELECT d.dataset_id, one.scope, one.lfn, one.size_bytes, one.n_events, one.checksum, one.guid, one.lumi_block
  FROM catalogue.datasets d,
       (SELECT DISTINCT ON (f.scope, f.lfn) f.* FROM catalogue.files f
          JOIN unnest(:scopes::text[], :lfns::text[]) AS w (scope, lfn) ON w.scope = f.scope AND w.lfn = f.lfn
         ORDER BY f.scope, f.lfn, f.file_id) one
 WHERE d.name = :name AND d.state = 'open' ORDER BY one.file_id
ON CONFLICT (dataset_id, lfn) DO NOTHING
RETURNING dataset_id, size_bytes, n_events;

-- name: copies_of_attached
-- Copies that the files of a dataset have as files of other datasets.
SELECT d.name AS dataset, f.lfn, place.storage
  FROM catalogue.datasets d JOIN catalogue.files f USING (dataset_id)
  JOIN catalogue.files other ON other.lfn = f.lfn AND other.scope = f.scope AND other.dataset_id <> f.dataset_id
 CROSS JOIN LATERAL (SELECT r.storage FROM catalogue.dataset_replicas r
                      WHERE r.dataset_id = other.dataset_id AND r.complete
                     UNION SELECT fr.storage FROM catalogue.file_replicas fr WHERE fr.file_id = other.file_id) place
 WHERE d.name = :name AND f.lfn = ANY(:lfns::text[]) ORDER BY f.lfn, place.storage;

-- name: absent_files
-- Which of these files their datasets do not have.
SELECT x.dataset, x.lfn
  FROM unnest(:datasets::text[], :lfns::text[]) AS x (dataset, lfn)
  LEFT JOIN catalogue.datasets d ON d.name = x.dataset
 WHERE NOT EXISTS (SELECT FROM catalogue.files f WHERE f.dataset_id = d.dataset_id AND f.lfn = x.lfn);

-- name: delete_files
-- Some files of a dataset, with their copies; how many.
WITH part AS MATERIALIZED (
        SELECT file_id FROM catalogue.files WHERE dataset_id = :dataset_id ORDER BY file_id LIMIT :at_most::int),
     copies AS (DELETE FROM catalogue.file_replicas r USING part WHERE r.file_id = part.file_id),
     brought AS (DELETE FROM catalogue.brought_copies b USING part WHERE b.file_id = part.file_id)
SELECT file_id FROM part;

-- name: delete_named_files
-- The same files, after their copies.
DELETE FROM catalogue.files WHERE file_id = ANY(:file_ids::bigint[]);

-- name: delete_copies_of_dataset
-- What is left of a dataset without files: its copies,
DELETE FROM catalogue.dataset_replicas WHERE dataset_id = :dataset_id;

-- name: delete_rules_of_dataset
-- rules for it,
DELETE FROM catalogue.rules WHERE dataset_id = :dataset_id;

-- name: delete_from_containers
-- its places in containers,
DELETE FROM catalogue.containers WHERE dataset_id = :dataset_id OR container_id = :dataset_id;

-- name: delete_dataset
-- and itself.
DELETE FROM catalogue.datasets WHERE dataset_id = :dataset_id;
