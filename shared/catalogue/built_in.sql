-- name: find_datasets
-- The named datasets and containers, and the datasets of those containers.
WITH named AS (SELECT dataset_id FROM catalogue.datasets WHERE name = ANY(:names::text[])),
     wanted AS (
        SELECT dataset_id FROM named
        UNION SELECT c.dataset_id FROM catalogue.containers c JOIN named n ON n.dataset_id = c.container_id)
SELECT d.name, d.scope, d.kind, d.state, d.n_files, d.n_bytes, d.n_events, d.attributes,
       (SELECT array_agg(part.name ORDER BY c.position, part.name) FROM catalogue.containers c
          JOIN catalogue.datasets part ON part.dataset_id = c.dataset_id
         WHERE c.container_id = d.dataset_id) AS constituents
  FROM catalogue.datasets d JOIN wanted USING (dataset_id) ORDER BY d.name;

-- name: find_replicas
-- The copies of datasets, whole or in part.
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
UPDATE catalogue.datasets SET state = 'frozen' WHERE name = ANY(:names::text[]) AND state = 'open';

-- name: complete_replicas
-- Copies that have every file of a dataset are complete: they need no row for each file.
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
        UPDATE catalogue.datasets SET state = 'open' WHERE name = ANY(:names::text[]) AND state = 'frozen'
        RETURNING dataset_id),
     partial AS (
        UPDATE catalogue.dataset_replicas r SET complete = false FROM opened o
         WHERE r.dataset_id = o.dataset_id AND r.complete RETURNING r.dataset_id, r.storage)
INSERT INTO catalogue.file_replicas (file_id, storage)
SELECT f.file_id, p.storage FROM partial p JOIN catalogue.files f USING (dataset_id) ON CONFLICT DO NOTHING;

-- name: feed
-- Files as units, one row for each, or cut into ranges of events_per_unit; events count from 0 inside a file. Window sums
-- give the running event number and cut at the limits.
WITH chosen AS MATERIALIZED (
        SELECT f.*, coalesce(:events_per_file::bigint, f.n_events) AS events,
               row_number() OVER in_order AS nth,
               sum(coalesce(:events_per_file::bigint, f.n_events, 0)) OVER in_order
                   - coalesce(:events_per_file::bigint, f.n_events, 0) AS events_before
          FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)
         WHERE d.name = :dataset
           AND (:names::text[] IS NULL OR f.lfn = ANY(:names::text[]))
           AND (cardinality(:include::text[]) = 0 OR f.lfn ~ ANY(:include::text[]))
           AND NOT f.lfn ~ ANY(:exclude::text[])
           AND (cardinality(:skip_files_used_by::bigint[]) = 0 OR NOT EXISTS (
                    SELECT FROM task_files u WHERE u.lfn = f.lfn AND u.task_id = ANY(:skip_files_used_by::bigint[])
                       AND u.type = 'input' AND u.status = 'finished'))
           AND NOT EXISTS (SELECT FROM task_files t WHERE t.dataset_id = :dataset_id AND t.lfn = f.lfn)
        WINDOW in_order AS (ORDER BY CASE WHEN :by_lumi_block::boolean THEN f.lumi_block END NULLS FIRST, f.file_id
                            ROWS UNBOUNDED PRECEDING)),
     units AS (
        SELECT c.*, NULL::bigint AS start_event, NULL::bigint AS end_before FROM chosen c
         WHERE :events_per_unit::bigint IS NULL AND c.nth <= coalesce(:max_files::bigint, c.nth)
           AND c.events_before < coalesce(:max_events::bigint, c.events_before + 1)
        UNION ALL
        SELECT c.*, r.start_event,
               least(r.start_event + :events_per_unit::bigint, c.events,
                     coalesce(:max_events::bigint - c.events_before, c.events))
          FROM chosen c, generate_series(0, c.events - 1, :events_per_unit::bigint) AS r (start_event)
         WHERE :events_per_unit::bigint IS NOT NULL AND c.nth <= coalesce(:max_files::bigint, c.nth)
           AND c.events_before + r.start_event < coalesce(:max_events::bigint, c.events_before + r.start_event + 1)),
     added AS (
        INSERT INTO task_files (dataset_id, task_id, lfn, guid, type, fsize, checksum, scope, status, max_attempt,
                                max_failure, n_events, start_event, end_event, first_event, boundary_id, lumi_block_nr)
        SELECT :dataset_id, :task_id, lfn, guid, :type, size_bytes, checksum, scope, 'ready', :max_attempt,
               :max_failure, coalesce(end_before - start_event, events), start_event, end_before - 1,
               :first_event::bigint + events_before + coalesce(start_event, 0),
               CASE WHEN :respect_lumi_blocks::boolean THEN lumi_block END, lumi_block
          FROM units ORDER BY nth, start_event
        RETURNING start_event, n_events)
SELECT count(*) AS n_units, count(*) FILTER (WHERE coalesce(start_event, 0) = 0) AS n_files,
       sum(n_events)::bigint AS n_events FROM added;
