-- name: use_of_accounts
-- Analysis jobs of users who run more than so many or have throttled ones, and of all working groups, by VO. Users are
-- found in the statistics, which count all their jobs; indexes tasks_user, tasks_of_live_group, jobs_task.
WITH users AS (
    SELECT user_name FROM queue_statistics
     WHERE status IN ('running', 'throttled')
     GROUP BY user_name
    HAVING sum(n_jobs) FILTER (WHERE status = 'running') > :least_jobs
        OR sum(n_cores) FILTER (WHERE status = 'running') > :least_cores
        OR sum(n_jobs) FILTER (WHERE status = 'throttled') > 0
), owned AS (
    SELECT t.task_id, t.vo, t.user_name, '' AS working_group, t.status
      FROM users u JOIN tasks t ON t.user_name = u.user_name
     WHERE coalesce(t.working_group, '') = ''
       AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
    UNION ALL
    SELECT t.task_id, t.vo, '', t.working_group, t.status FROM tasks t
     WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
)
SELECT o.vo, o.user_name, o.working_group,
       count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0) AS running_cores,
       count(*) FILTER (WHERE j.status = 'activated') AS activated_jobs,
       count(*) FILTER (WHERE j.status = 'throttled' AND o.status <> 'paused') AS throttled_jobs
  FROM owned o JOIN jobs j ON j.task_id = o.task_id AND j.status IN ('running', 'activated', 'throttled')
 GROUP BY o.vo, o.user_name, o.working_group
 ORDER BY o.vo, o.user_name, o.working_group;

-- name: jobs_of_account
-- Analysis jobs of an account in one state, those that are served first at the front if they go on, else at the end;
-- of tasks that are not paused. Indexes tasks_user, tasks_of_live_group, jobs_task.
SELECT j.job_id FROM tasks t JOIN jobs j ON j.task_id = t.task_id AND j.status = :status
 WHERE t.vo IS NOT DISTINCT FROM :vo AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'paused')
   AND ((:working_group <> '' AND t.working_group = :working_group)
        OR (:working_group = '' AND t.user_name = :user_name AND coalesce(t.working_group, '') = ''))
   AND orrery_is_analysis(t.task_type, t.prod_source_label)
 ORDER BY CASE WHEN :status = 'throttled' THEN -j.current_priority ELSE j.current_priority END,
          CASE WHEN :status = 'throttled' THEN j.job_id ELSE -j.job_id END
 LIMIT :most::int;
