-- name: counts_of_shares
-- Jobs by queue, VO and share; all queues if none are named.
SELECT queue, vo, gshare,
       coalesce(sum(n_jobs) FILTER (WHERE status <> 'running'), 0)::bigint AS queued,
       coalesce(sum(n_jobs) FILTER (WHERE status = 'running'), 0)::bigint AS running,
       coalesce(sum(n_cores) FILTER (WHERE status = 'running'), 0)::bigint AS running_cores,
       count(DISTINCT user_name) FILTER (WHERE n_jobs > 0) AS n_users
FROM queue_statistics
WHERE (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
  AND status IN ('defined', 'assigned', 'activated', 'starting', 'sent', 'running')
GROUP BY queue, vo, gshare;

-- name: now
-- The time of this transaction.
SELECT orrery_now();

-- name: starts
-- Jobs started in the last day, by queue, share and hour. Index queue_outcomes_queue.
SELECT queue, gshare, hour, sum(n_started)::bigint AS n_started
FROM queue_outcomes
WHERE hour > orrery_now() - interval '25 hours' AND hour >= :since AND n_started > 0
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
GROUP BY queue, gshare, hour;

-- name: waits
-- Waiting times of merge jobs of these shares in the last days, by queue and hour.
SELECT queue, hour, n_jobs, wait_s, wait_squared_s2
FROM queue_waits
WHERE hour > orrery_now() - interval '4 days' AND hour >= :since AND job_type = 'merge' AND gshare = ANY(:gshares::text[])
  AND (:queues::text[] IS NULL OR queue = ANY(:queues::text[]))
ORDER BY hour, queue, gshare;

-- name: waiting_merge_jobs
-- Analysis merge jobs that wait, with the moment from which they do. Index jobs_merging.
SELECT j.queue, j.creation_time AS since
FROM jobs j JOIN tasks t USING (task_id)
WHERE j.job_type = 'merge' AND j.status IN ('activated', 'starting') AND orrery_is_analysis(t.task_type, j.prod_source_label)
  AND (:queues::text[] IS NULL OR j.queue = ANY(:queues::text[]))
ORDER BY j.queue, j.creation_time, j.job_id;

-- name: shares
-- The tree of shares.
SELECT gshare AS name, value, parent FROM shares ORDER BY position, gshare;

-- name: counts_of_user
-- Jobs of one user of a VO by queue, share and state. Index queue_statistics_user.
SELECT queue, resource_type, gshare, :user_name::text AS user_name, coalesce(:vo::text, '') AS vo, status, n_jobs, n_cores
FROM orrery_jobs_of_account(:user_name::text, :vo::text) WHERE n_jobs <> 0 OR n_cores <> 0
ORDER BY queue, resource_type, gshare, status;

-- name: outcomes_of_task
-- What became of a task's jobs in the last day. Index queue_outcomes_task.
SELECT hour, queue, gshare, task_id, n_started, n_finished, n_failed, n_closed
FROM queue_outcomes WHERE task_id = :task_id AND hour > orrery_now() - interval '25 hours'
ORDER BY hour, queue, gshare;

-- name: disk_of_user
-- Disk quota and use of one user, as they are for a VO.
SELECT disk_quota_gb, disk_used_gb FROM orrery_account(:user_name::text, :vo::text);

-- name: usage_of_group
-- Running and queued jobs of one working group of a VO: those of live tasks, as no other has any. Index tasks_of_live_group.
SELECT count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       count(*) FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')) AS queued_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0)::bigint AS running_cores,
       coalesce(sum(j.core_count)
           FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')), 0)::bigint AS queued_cores
FROM jobs j JOIN tasks t USING (task_id)
WHERE t.working_group = :working_group AND t.working_group <> '' AND t.vo IS NOT DISTINCT FROM :vo::text
  AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
