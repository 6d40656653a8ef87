-- name: collections
-- Datasets and containers by name, containers with what is in them in order.
SELECT d.name, d.scope, d.kind, d.state, d.n_files, d.n_bytes, d.attributes,
       ARRAY (SELECT part.scope FROM catalogue.containers c JOIN catalogue.datasets part USING (dataset_id)
               WHERE c.container_id = d.dataset_id ORDER BY c.position, part.name) AS part_scopes,
       ARRAY (SELECT part.name FROM catalogue.containers c JOIN catalogue.datasets part USING (dataset_id)
               WHERE c.container_id = d.dataset_id ORDER BY c.position, part.name) AS part_names
  FROM catalogue.datasets d WHERE d.name = ANY(:names::text[]) ORDER BY d.name;

-- name: files_after
-- The next files of a dataset, in the order they were added.
SELECT f.file_id, f.scope, f.lfn, f.size_bytes, f.n_events, f.checksum, f.guid, f.lumi_block
  FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)
 WHERE d.name = :name AND f.file_id > :after ORDER BY f.file_id LIMIT :at_most::int;

-- name: copies_after
-- The next files, of these datasets or of these names, with the storages that have them.
SELECT f.file_id, f.scope, f.lfn,
       ARRAY (SELECT r.storage FROM catalogue.dataset_replicas r WHERE r.dataset_id = f.dataset_id AND r.complete
              UNION SELECT fr.storage FROM catalogue.file_replicas fr WHERE fr.file_id = f.file_id
              ORDER BY 1) AS storages
  FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)
 WHERE (d.name = ANY(:names::text[]) OR f.lfn = ANY(:names::text[])) AND f.file_id > :after
 ORDER BY f.file_id LIMIT :at_most::int;

-- name: describe
-- Attributes are set; others stay.
UPDATE catalogue.datasets SET attributes = attributes || :attributes::jsonb WHERE name = :name;

-- name: create_rule
-- A rule is found again by what it asks for.
INSERT INTO catalogue.rules (dataset_id, storage, activity, comment, expires_at)
SELECT dataset_id, :storage, :activity, :comment, orrery_now() + make_interval(secs => :lifetime_s::double precision)
  FROM catalogue.datasets WHERE name = :name
ON CONFLICT (dataset_id, storage) DO UPDATE SET activity = catalogue.rules.activity
RETURNING rule_id;

-- name: rules
-- Rules that still stand, and for how long each has.
SELECT r.rule_id, r.storage, d.name, extract(epoch FROM orrery_now() - r.created_at)::double precision AS age_s
  FROM catalogue.rules r JOIN catalogue.datasets d USING (dataset_id)
 WHERE r.rule_id = ANY(:rule_ids::bigint[]) ORDER BY r.rule_id;

-- name: cancel_rule
-- Nobody wants these copies any more.
DELETE FROM catalogue.rules WHERE rule_id = :rule_id;

-- name: files_to_copy
-- What a rule brings: the files of its dataset.
SELECT d.name AS dataset, f.lfn FROM catalogue.files f JOIN catalogue.datasets d USING (dataset_id)
 WHERE d.name = :name ORDER BY f.file_id;
