-- name: queued_at_queues
-- Of one VO, as brokerage counts them. Moves are folded in any order, so a sum may be below nothing for a moment.
SELECT queue, resource_type, greatest(sum(n_jobs), 0)::int AS n_queued FROM queue_statistics
 WHERE queue = ANY(:queues::text[]) AND vo = :vo AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent')
 GROUP BY queue, resource_type;
