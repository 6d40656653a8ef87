-- name: note_node
-- What a pilot says of its machine now.
-- done for: PILOTS
INSERT INTO worker_nodes (site, host_name, kind, item, data)
VALUES (:site, :host_name, :kind, :item, :data::jsonb)
ON CONFLICT (site, host_name, kind, item) DO UPDATE SET data = excluded.data, seen_at = excluded.seen_at;

-- name: forget_nodes
-- Machines that no pilot was on for long. Index worker_nodes_old.
DELETE FROM worker_nodes WHERE seen_at < orrery_now() - make_interval(secs => :older_than_s);
