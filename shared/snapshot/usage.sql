-- name: counts_of_shares(queues)
-- Jobs by queue and share; all queues if none are named.
SELECT queue, gshare,
       coalesce(sum(n_jobs) FILTER (WHERE status <> 'running'), 0)::bigint AS queued,
       coalesce(sum(n_jobs) FILTER (WHERE status = 'running'), 0)::bigint AS running,
       coalesce(sum(n_cores) FILTER (WHERE status = 'running'), 0)::bigint AS running_cores,
       count(DISTINCT user_name) FILTER (WHERE n_jobs > 0) AS n_users
FROM queue_statistics
WHERE (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
  AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent', 'running')
GROUP BY queue, gshare;

-- name: now()$
SELECT orrery_now();

-- name: starts(queues, since)
SELECT queue, gshare, hour, sum(n_started)::bigint AS n_started
FROM queue_outcomes
WHERE hour > orrery_now() - interval '25 hours' AND hour >= :since AND n_started > 0
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
GROUP BY queue, gshare, hour;

-- name: waits(queues, gshares, since)
SELECT queue, hour, n_jobs, wait_s, wait_squared_s2
FROM queue_waits
WHERE hour > orrery_now() - interval '4 days' AND hour >= :since AND job_type = 'merge' AND gshare = ANY(:gshares::text[])
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
ORDER BY hour, queue, gshare;

-- name: waiting_merge_jobs(queues)
SELECT j.queue, j.creation_time AS since
FROM jobs j JOIN tasks t USING (task_id)
WHERE j.job_type = 'merge' AND j.status IN ('activated', 'starting') AND t.task_type = 'anal'
  AND (:queues::text[] IS NULL OR j.queue = ANY(:queues::text[]))
ORDER BY j.queue, j.creation_time, j.job_id;

-- name: shares()
SELECT gshare AS name, value, parent FROM shares ORDER BY position, gshare;

-- name: counts_of_user(user_name)
SELECT queue, resource_type, gshare, user_name, status, n_jobs, n_cores
FROM queue_statistics WHERE user_name = :user_name AND (n_jobs <> 0 OR n_cores <> 0)
ORDER BY queue, resource_type, gshare, status;

-- name: outcomes_of_task(task_id)
SELECT hour, queue, gshare, task_id, n_started, n_finished, n_failed, n_closed
FROM queue_outcomes WHERE task_id = :task_id AND hour > orrery_now() - interval '25 hours'
ORDER BY hour, queue, gshare;

-- name: disk_of_user(user_name)^
SELECT disk_quota_gb, disk_used_gb FROM users WHERE user_name = :user_name;

-- name: usage_of_group(working_group)^
SELECT count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       count(*) FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')) AS queued_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0)::bigint AS running_cores,
       coalesce(sum(j.core_count)
           FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')), 0)::bigint AS queued_cores
FROM jobs j JOIN tasks t USING (task_id)
WHERE t.working_group = :working_group;
