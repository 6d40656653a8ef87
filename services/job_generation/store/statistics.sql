-- name: queued_at_queues
-- Moves are folded in any order, so a sum may be below nothing for a moment.
SELECT queue, resource_type, greatest(sum(n_jobs), 0)::int AS n_queued FROM queue_statistics
 WHERE queue = ANY(:queues::text[]) AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent')
 GROUP BY queue, resource_type;

-- name: jobs_of_share
-- Jobs of a share and resource type by state, for its throttle.
SELECT status, greatest(sum(n_jobs), 0)::bigint AS n_jobs FROM queue_statistics
 WHERE gshare = :gshare AND resource_type = :resource_type GROUP BY status
UNION ALL
-- what chunks that are being brokered may become; merging is not throttled
SELECT 'offered', coalesce(sum(least(c.n_files, c.max_jobs)), 0)::bigint
  FROM chunks c JOIN tasks t USING (task_id)
 WHERE c.status = 'offered' AND c.kind <> 'merge' AND t.gshare = :gshare AND t.resource_type = :resource_type;

-- name: share_is_throttled
-- Whether the share may be throttled; no row for a share that is not loaded.
SELECT throttled FROM shares WHERE gshare = :gshare;
