-- name: forget_claims
-- Not those of jobs that are still with a pilot, or were so lately: its reports are held against the claim.
DELETE FROM job_claims WHERE request_key IN (
    SELECT request_key FROM job_claims
     WHERE claimed_at < orrery_now() - make_interval(secs => :older_than_s)
       AND NOT EXISTS (SELECT FROM jobs WHERE jobs.job_id = job_claims.job_id
                          AND (jobs.status IN ('sent', 'starting', 'running')
                               OR jobs.end_time > orrery_now() - make_interval(secs => :late_s)))
       AND NOT EXISTS (SELECT FROM jobs_archive a WHERE a.job_id = job_claims.job_id
                          AND a.archived_at > orrery_now() - make_interval(secs => :late_s))
     ORDER BY claimed_at LIMIT :size::int FOR UPDATE SKIP LOCKED);

-- name: forget_workers
-- Workers that ended a while ago, and those that were not heard of for longer than any pilot lives.
DELETE FROM workers
 WHERE status = 'finished' AND updated_at < orrery_now() - make_interval(secs => :older_than_s)
    OR updated_at < orrery_now() - make_interval(secs => :silent_s);

-- name: forget_pilots_without_a_job
-- What pilots were told that nobody was told since.
DELETE FROM pilots_without_a_job WHERE last_at < orrery_now() - make_interval(secs => :older_than_s);

-- name: announce_replica
-- This replica runs.
INSERT INTO dispatch_replicas (replica, seen_at) VALUES (:replica, orrery_now())
ON CONFLICT (replica) DO UPDATE SET seen_at = excluded.seen_at;

-- name: replicas
-- The replicas that run, in one order for everybody.
SELECT replica FROM dispatch_replicas WHERE seen_at > orrery_now() - make_interval(secs => :alive_s) ORDER BY replica;

-- name: forget_replicas
-- Replicas that have been gone for long.
DELETE FROM dispatch_replicas WHERE seen_at < orrery_now() - make_interval(secs => :dead_s);

-- name: forget_heard
-- Minutes that nobody looks at any more.
DELETE FROM heard_minutes WHERE minute < orrery_now() - make_interval(days => :kept_days::int);

-- name: share_tree
-- The tree of shares with its correction factors.
SELECT gshare, value, parent, correction_factor, stretchable FROM shares ORDER BY gshare;

-- name: use_of_shares
-- HS06 that each share uses now, by the benchmark of a core at each queue (the usual one at a queue without its own),
-- and its jobs that wait for pilots.
SELECT st.gshare,
       coalesce(sum(st.n_cores * coalesce(q.core_power_hs06, :usual_hs06::float8))
                FILTER (WHERE st.status IN ('sent', 'running')), 0)::float8 AS hs06,
       greatest(coalesce(sum(st.n_jobs) FILTER (WHERE st.status = 'activated'), 0), 0)::bigint AS n_queued
  FROM queue_statistics st
  LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06) ON q.queue = st.queue
 WHERE st.status IN ('sent', 'running', 'activated') GROUP BY st.gshare ORDER BY st.gshare;

-- name: mean_memory_of_queues
-- MB for each core that jobs of these queues have on average: those that run, or those that pilots were given, whichever
-- is more. Index jobs_live.
SELECT j.queue,
       greatest(sum(s.ram_mb) FILTER (WHERE j.status = 'running')::float8
                / sum(greatest(j.core_count, 1)) FILTER (WHERE j.status = 'running'),
                sum(s.ram_mb)::float8 / sum(greatest(j.core_count, 1))) AS mean_mb
  FROM jobs j JOIN requirement_shapes s USING (shape_id)
 WHERE j.status IN ('sent', 'starting', 'running') AND j.queue = ANY(:queues::text[])
 GROUP BY j.queue;
