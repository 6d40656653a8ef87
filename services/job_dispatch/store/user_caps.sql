-- name: use_of_accounts
-- Analysis jobs of users, and of working groups, who may run more than so many or have throttled ones, by VO. They are
-- found in the statistics, which count all jobs of a user, and so at least those of the group. Indexes tasks_of_live_users,
-- tasks_of_live_group, jobs_task.
WITH use AS MATERIALIZED (
    SELECT user_name, vo, coalesce(sum(n_jobs) FILTER (WHERE status = 'running'), 0) AS running_jobs,
           coalesce(sum(n_cores) FILTER (WHERE status = 'running'), 0) AS running_cores,
           coalesce(sum(n_jobs) FILTER (WHERE status = 'throttled'), 0) AS throttled_jobs
      FROM queue_statistics WHERE status IN ('running', 'throttled') GROUP BY user_name, vo
), busy AS (
    SELECT user_name, vo FROM use
     WHERE running_jobs > :least_jobs OR running_cores > :least_cores OR throttled_jobs > 0
        -- caps of their own may be lower than those that hold for everybody
        OR user_name IN (SELECT capped.user_name FROM users capped
                          WHERE capped.cap_running_jobs IS NOT NULL OR capped.cap_running_cores IS NOT NULL)
), busy_groups AS (
    SELECT m.working_group, m.vo FROM orrery_members_of_live_groups() m JOIN use USING (user_name, vo)
     GROUP BY m.working_group, m.vo
    HAVING sum(running_jobs) > :least_group_jobs OR sum(running_cores) > :least_group_cores OR sum(throttled_jobs) > 0
), owned AS (
    SELECT t.task_id, t.vo, t.user_name, '' AS working_group, t.status
      FROM busy u JOIN tasks t ON t.user_name = u.user_name AND coalesce(t.vo, '') = u.vo
     WHERE coalesce(t.working_group, '') = ''
       AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
    UNION ALL
    SELECT t.task_id, t.vo, '', t.working_group, t.status
      FROM busy_groups g JOIN tasks t ON t.working_group = g.working_group AND coalesce(t.vo, '') = g.vo
     WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
)
SELECT o.vo, o.user_name, o.working_group,
       count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0) AS running_cores,
       count(*) FILTER (WHERE j.status = 'activated') AS activated_jobs,
       count(*) FILTER (WHERE j.status = 'throttled' AND o.status <> 'paused') AS throttled_jobs,
       max(own.cap_running_jobs) AS cap_running_jobs, max(own.cap_running_cores) AS cap_running_cores
  FROM owned o JOIN jobs j ON j.task_id = o.task_id AND j.status IN ('running', 'activated', 'throttled')
  LEFT JOIN LATERAL orrery_account(o.user_name, o.vo) own ON o.working_group = ''
 GROUP BY o.vo, o.user_name, o.working_group
 ORDER BY o.vo, o.user_name, o.working_group;

-- name: jobs_of_account
-- Analysis jobs of an account in one state, those that are served first at the front if they go on, else at the end;
-- of tasks that are not paused, and cannot be before the commit: a task that somebody changes at this moment is left to
-- the next look. Indexes tasks_user, tasks_of_live_group, jobs_task.
SELECT j.job_id FROM tasks t JOIN jobs j ON j.task_id = t.task_id AND j.status = :status
 WHERE t.vo IS NOT DISTINCT FROM :vo AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'paused')
   AND ((:working_group <> '' AND t.working_group = :working_group)
        OR (:working_group = '' AND t.user_name = :user_name AND coalesce(t.working_group, '') = ''))
   AND orrery_is_analysis(t.task_type, t.prod_source_label)
 ORDER BY CASE WHEN :status = 'throttled' THEN -j.current_priority ELSE j.current_priority END,
          CASE WHEN :status = 'throttled' THEN j.job_id ELSE -j.job_id END
 LIMIT :most::int FOR SHARE OF t SKIP LOCKED;

-- name: use_of_queues
-- Analysis jobs at these queues by VO, user or working group, and queue: those that run or ended within some hours, those
-- that wait, the best priority among these, and what the user is granted beyond others; of queues between them by name
-- those that ended. Builds and merges have priorities of their own. LIMIT keeps the
-- look-up of each task at one index entry. Indexes jobs_live, queue_outcomes_queue.
WITH counted AS (
    SELECT task_id, queue, count(*) FILTER (WHERE status = 'running') AS n_used,
           count(*) FILTER (WHERE status = 'activated' AND job_type = 'normal') AS n_waiting,
           max(current_priority) FILTER (WHERE status = 'activated' AND job_type = 'normal') AS best
      FROM jobs WHERE queue = ANY(:queues::text[]) AND status IN ('running', 'activated') GROUP BY task_id, queue
    UNION ALL
    SELECT task_id, queue, sum(n_finished + n_failed), 0, NULL FROM queue_outcomes
     WHERE hour > orrery_now() - make_interval(hours => :ended_within_h)
       AND queue > :after::text AND (:upto::text IS NULL OR queue <= :upto) GROUP BY task_id, queue
), owned AS (
    SELECT t.vo, CASE WHEN coalesce(t.working_group, '') = '' THEN t.user_name ELSE '' END AS user_name,
           coalesce(t.working_group, '') AS working_group, c.queue, c.n_used, c.n_waiting, c.best
      FROM counted c CROSS JOIN LATERAL (
           SELECT vo, user_name, working_group FROM tasks
            WHERE task_id = c.task_id AND orrery_is_analysis(task_type, prod_source_label) LIMIT 1) t
)
SELECT o.vo, o.user_name, o.working_group, o.queue, sum(o.n_used)::bigint AS n_used,
       sum(o.n_waiting)::bigint AS n_waiting, coalesce(max(o.best), 0) AS best, coalesce(max(u.quota), 0) AS quota
  FROM owned o LEFT JOIN LATERAL orrery_account(o.user_name, o.vo) u ON true
 GROUP BY o.vo, o.user_name, o.working_group, o.queue ORDER BY o.vo, o.user_name, o.working_group, o.queue;

-- name: waiting_at_queue
-- Analysis jobs of an account that wait for a pilot at a queue. Indexes tasks_user, tasks_of_live_group, jobs_task.
SELECT j.job_id, j.current_priority
  FROM tasks t JOIN jobs j ON j.task_id = t.task_id AND j.status = 'activated' AND j.queue || '' = :queue
 WHERE t.vo IS NOT DISTINCT FROM :vo AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND ((:working_group <> '' AND t.working_group = :working_group)
        OR (:working_group = '' AND t.user_name = :user_name AND coalesce(t.working_group, '') = ''))
   AND orrery_is_analysis(t.task_type, t.prod_source_label) AND j.job_type = 'normal'
 ORDER BY j.current_priority DESC, j.job_id;

-- name: accounts_of_tasks
-- For whom the jobs of analysis tasks count: their working group, or their user.
SELECT t.task_id, coalesce(t.vo, '') AS vo, CASE WHEN coalesce(t.working_group, '') = '' THEN t.user_name ELSE '' END AS user_name,
       coalesce(t.working_group, '') AS working_group
  FROM tasks t WHERE t.task_id = ANY(:task_ids::bigint[]) AND orrery_is_analysis(t.task_type, t.prod_source_label);

-- name: held_accounts_of_tasks
-- As accounts_of_tasks, of those that may be held back: something of the user or group is throttled, or the user runs
-- more than the least cap. Indexes queue_statistics_user, tasks_of_live_group, jobs_task.
SELECT t.task_id, coalesce(t.vo, '') AS vo, CASE WHEN coalesce(t.working_group, '') = '' THEN t.user_name ELSE '' END AS user_name,
       coalesce(t.working_group, '') AS working_group
  FROM tasks t
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND orrery_is_analysis(t.task_type, t.prod_source_label)
   AND CASE WHEN t.working_group <> '' THEN EXISTS (
                 SELECT FROM tasks o JOIN jobs j ON j.task_id = o.task_id AND j.status = 'throttled'
                  WHERE o.working_group = t.working_group AND o.working_group <> ''
                    AND o.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted'))
            ELSE (SELECT coalesce(sum(s.n_jobs) FILTER (WHERE s.status = 'throttled'), 0) > 0
                      OR coalesce(sum(s.n_jobs) FILTER (WHERE s.status = 'running'), 0)
                         > least(:least_jobs::float8, min(own.cap_running_jobs))
                      OR coalesce(sum(s.n_cores) FILTER (WHERE s.status = 'running'), 0)
                         > least(:least_cores::float8, min(own.cap_running_cores))
                    FROM queue_statistics s LEFT JOIN LATERAL orrery_account(t.user_name, t.vo) own ON true
                   WHERE s.user_name = t.user_name AND s.vo = coalesce(t.vo, '')) END;

-- name: hold_account
-- Until the commit: whoever else activates jobs of the account waits.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('|', :vo::text, :user_name::text, :working_group::text), 460));

-- name: use_of_account
-- As use_of_accounts, of one. Indexes tasks_user, tasks_of_live_group, jobs_task.
SELECT count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0)::bigint AS running_cores,
       count(*) FILTER (WHERE j.status = 'activated') AS activated_jobs,
       count(*) FILTER (WHERE j.status = 'throttled' AND t.status <> 'paused') AS throttled_jobs,
       (SELECT cap_running_jobs FROM orrery_account(:user_name::text, :vo::text) WHERE :working_group::text = '') AS cap_jobs,
       (SELECT cap_running_cores FROM orrery_account(:user_name::text, :vo::text) WHERE :working_group::text = '') AS cap_cores
  FROM tasks t JOIN jobs j ON j.task_id = t.task_id AND j.status IN ('running', 'activated', 'throttled')
 WHERE coalesce(t.vo, '') = :vo::text AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND ((:working_group <> '' AND t.working_group = :working_group)
        OR (:working_group = '' AND t.user_name = :user_name AND coalesce(t.working_group, '') = ''))
   AND orrery_is_analysis(t.task_type, t.prod_source_label);
