-- name: counts_of_shares
-- Jobs by queue, VO and share; all queues if none are named.
-- told by: nobody; brokerage and the watchdog decide with it
SELECT queue, vo, gshare,
       coalesce(sum(n_jobs) FILTER (WHERE status <> 'running'), 0)::bigint AS queued,
       coalesce(sum(n_jobs) FILTER (WHERE status = 'running'), 0)::bigint AS running,
       coalesce(sum(n_cores) FILTER (WHERE status = 'running'), 0)::bigint AS running_cores,
       count(DISTINCT user_name) FILTER (WHERE n_jobs > 0) AS n_users
FROM queue_statistics
WHERE (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
  AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent', 'running')
GROUP BY queue, vo, gshare;

-- name: starts
-- Jobs started in the last day, by queue, share and hour. Index queue_outcomes_queue.
-- told by: nobody; brokerage and the watchdog decide with it
SELECT queue, gshare, hour, sum(n_started)::bigint AS n_started
FROM queue_outcomes
WHERE hour > orrery_now() - interval '25 hours' AND hour >= :since AND n_started > 0
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
GROUP BY queue, gshare, hour;

-- name: waits
-- Waiting times of merge jobs of these shares in the last days, by queue and hour.
-- told by: nobody; brokerage and the watchdog decide with it
SELECT queue, hour, n_jobs, wait_s, wait_squared_s2
FROM queue_waits
WHERE hour > orrery_now() - interval '4 days' AND hour >= :since AND job_type = 'merge' AND gshare = ANY(:gshares::text[])
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
ORDER BY hour, queue, gshare;

-- name: waiting_merge_jobs
-- Analysis merge jobs that wait, with the moment from which they do. Index jobs_merging.
-- told by: nobody; brokerage and the watchdog decide with it
SELECT j.queue, j.creation_time AS since
FROM jobs j JOIN tasks t USING (task_id)
WHERE j.job_type = 'merge' AND j.status IN ('activated', 'starting') AND orrery_is_analysis(t.task_type, j.prod_source_label)
  AND (:queues::text[] IS NULL OR j.queue = ANY(:queues::text[]))
ORDER BY j.queue, j.creation_time, j.job_id;
