-- name: groups
-- What each group of users is due, and how it is divided.
-- told by: STATES
SELECT vo, name, job_share, job_sharing, allows_background FROM user_groups;

-- name: corrections_of_groups
-- Factors of groups (user_name is '') and of users in them.
-- told by: STATES
SELECT vo, user_group, user_name, correction_factor FROM group_corrections WHERE correction_factor <> 1;

-- name: corrections_of_users
-- Factors of users within shares.
-- told by: DETAILS
SELECT gshare, user_name, correction_factor FROM user_corrections WHERE correction_factor <> 1;

-- name: waiting_of_all
-- How many jobs wait for pilots, by order key. Index jobs_order_key.
-- told by: DETAILS
SELECT order_key_id, count(*)::int AS n_jobs FROM jobs WHERE order_key_id <> 0 AND status = 'activated'
 GROUP BY order_key_id;

-- name: waiting_of_some
-- The same for some keys only. Index jobs_order_key.
-- told by: DETAILS
SELECT wanted.order_key_id, found.n_jobs
  FROM unnest(:order_key_ids::int[]) AS wanted (order_key_id)
 CROSS JOIN LATERAL (
    SELECT count(*)::int AS n_jobs FROM jobs
     WHERE jobs.order_key_id = wanted.order_key_id AND jobs.order_key_id <> 0 AND jobs.status = 'activated') found
 WHERE found.n_jobs > 0;

-- name: order_keys
-- These order keys with the identities of their task queues.
-- told by: DETAILS
SELECT k.order_key_id, k.user_priority, q.task_queue_id, q.vo, q.user_name, q.user_group, q.cpu_segment_s, q.sites,
       q.banned_sites, q.platforms, q.tags, q.job_types
  FROM order_keys k JOIN task_queues q USING (task_queue_id) WHERE k.order_key_id = ANY(:order_key_ids::int[])
 ORDER BY k.order_key_id;

-- name: at_pilots
-- Jobs of task queues that pilots have now. Index jobs_running_with_order_key.
SELECT queue, order_key_id, count(*)::int AS n_jobs FROM jobs
 WHERE status IN ('sent', 'starting', 'running') AND order_key_id <> 0 GROUP BY queue, order_key_id;

-- name: note_empty
-- Since when task queues have no jobs at all. Index jobs_order_key.
UPDATE task_queues q SET empty_since = CASE WHEN now_empty.is_empty THEN orrery_now() END
  FROM (SELECT t.task_queue_id,
               NOT EXISTS (SELECT FROM order_keys k JOIN jobs j ON j.order_key_id = k.order_key_id
                            WHERE k.task_queue_id = t.task_queue_id AND j.order_key_id <> 0) AS is_empty
          FROM task_queues t) now_empty
 WHERE q.task_queue_id = now_empty.task_queue_id AND (q.empty_since IS NOT NULL) <> now_empty.is_empty;

-- name: forget_empty
-- Whoever makes jobs for one has used it within a minute, or uses it first: it is not deleted under them.
DELETE FROM task_queues q
 WHERE q.empty_since < orrery_now() - make_interval(secs => :kept_s)
   AND q.used_at < orrery_now() - make_interval(secs => :kept_s)
   AND NOT EXISTS (SELECT FROM order_keys k JOIN jobs j ON j.order_key_id = k.order_key_id
                    WHERE k.task_queue_id = q.task_queue_id AND j.order_key_id <> 0)
RETURNING q.task_queue_id;

-- name: one_at_a_time
-- What one dispatcher counts and permits the next one sees. Held until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtext('site_limits'), 0);

-- name: at_pilots_of_queues
-- Jobs with an order key at some queues that pilots have, and those that others may claim at this moment, in one look:
-- one that is claimed meanwhile counts once. Index jobs_running_with_order_key.
SELECT queue, order_key_id, count(*)::int AS n_jobs FROM (
    SELECT j.queue, j.order_key_id FROM jobs j
     WHERE j.queue = ANY(:queues::text[]) AND j.status IN ('sent', 'starting', 'running') AND j.order_key_id <> 0
    UNION ALL
    SELECT j.queue, j.order_key_id FROM site_limit_permits p JOIN jobs j ON j.job_id = p.job_id
     WHERE p.made_at > orrery_now() - make_interval(secs => :permit_s)
       AND j.status = 'activated' AND j.queue = ANY(:queues::text[]) AND j.order_key_id <> 0) counted
 GROUP BY queue, order_key_id;

-- name: permitted
-- Which of these jobs have a permit: they are counted already.
SELECT p.job_id FROM site_limit_permits p JOIN jobs j ON j.job_id = p.job_id
 WHERE p.job_id = ANY(:job_ids::bigint[]) AND p.made_at > orrery_now() - make_interval(secs => :permit_s)
   AND j.status = 'activated';

-- name: permit
-- These may be claimed; those of long ago go.
WITH old AS (DELETE FROM site_limit_permits WHERE made_at < orrery_now() - make_interval(secs => :permit_s)
                AND job_id <> ALL(:job_ids::bigint[]))
INSERT INTO site_limit_permits (job_id) SELECT unnest(:job_ids::bigint[])
ON CONFLICT (job_id) DO UPDATE SET made_at = excluded.made_at;

-- name: running_delays
-- Delays that have not ended, with the job that began each.
SELECT name, job_id, extract(epoch FROM ends_at - orrery_now())::float8 AS seconds_left FROM site_delays WHERE name = ANY(:names::text[]) AND ends_at > orrery_now();

-- name: begin_delays
-- A match was made: the next one waits.
INSERT INTO site_delays (name, job_id, ends_at)
SELECT given.name, given.job_id, orrery_now() + make_interval(secs => given.seconds)
  FROM unnest(:names::text[], :job_ids::bigint[], :seconds::float8[]) AS given (name, job_id, seconds)
ON CONFLICT (name) DO UPDATE SET job_id = excluded.job_id, ends_at = excluded.ends_at;
