-- name: now
-- The time of this transaction.
SELECT orrery_now();

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
