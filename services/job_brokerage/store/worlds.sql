-- name: grid_version
-- The version of the grid that is saved, and the moment.
-- told by: PRODUCTION
SELECT coalesce((SELECT version FROM versions WHERE name = 'grid'), 0) AS version, orrery_now() AS now;

-- name: resource_types_of_world
-- Resource types under the names of a world file.
-- told by: PRODUCTION
SELECT resource_name, min_core AS mincore, max_core AS maxcore, min_ram_per_core AS minrampercore,
       max_ram_per_core AS maxrampercore
FROM resource_types ORDER BY position;

-- name: shares_of_world
-- The tree of shares under the names of a world file.
-- told by: PRODUCTION
SELECT gshare AS name, value, parent, prod_source_label AS prodsourcelabel, working_group AS workinggroup, campaign,
       processing_type AS processingtype, trans_path AS transpath, resource_type AS rtype, vo, throttled, stretchable
FROM shares ORDER BY position, gshare;

-- name: share_corrections_of_world
-- What history makes of shares, where it makes anything.
-- told by: PRODUCTION
SELECT gshare, correction_factor FROM shares WHERE correction_factor <> 1 ORDER BY gshare;

-- name: statistics_of_world
-- What the counts of a queue, resource type and state come to is what decides: a row below nothing is kept.
-- told by: PRODUCTION
SELECT queue, resource_type, gshare, user_name, vo, status, n_jobs, n_cores
FROM queue_statistics WHERE n_jobs <> 0 OR n_cores <> 0
ORDER BY queue, resource_type, gshare, user_name, vo, status;

-- name: activity_of_world
-- Pilots, workers and slots of every queue.
-- told by: PRODUCTION
SELECT queue, last_pilot_at, last_job_start_at, known_since, mean_disk_io_kb_s_per_core, running_workers,
       submitted_workers, slots.n_slots, coalesce(slots.slots_of_type, '{}') AS slots_of_type
FROM queue_activity LEFT JOIN valid_queue_slots slots USING (queue) ORDER BY queue;

-- name: remaining_work_of_world
-- Work that is left for each nucleus, by priority.
-- told by: PRODUCTION
SELECT nucleus, priority, hs06_s FROM nucleus_remaining_work WHERE hs06_s <> 0 ORDER BY nucleus, priority;

-- name: outcomes_of_world
-- What became of jobs in the hours that brokerage looks back; of tasks that the reader may not have in full, together, as
-- of task 0.
-- told by: PRODUCTION
SELECT o.hour, o.queue, o.gshare, own.task_id, sum(o.n_started)::bigint AS n_started,
       sum(o.n_finished)::bigint AS n_finished, sum(o.n_failed)::bigint AS n_failed, sum(o.n_closed)::bigint AS n_closed
FROM queue_outcomes o LEFT JOIN tasks t USING (task_id)
CROSS JOIN LATERAL (
    -- whose a task was that has gone is known no more
    SELECT CASE WHEN :produced_vos::text[] IS NULL OR (t.task_id IS NOT NULL
                 AND orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[]))
                THEN o.task_id ELSE 0 END AS task_id) own
WHERE o.hour > orrery_now() - interval '25 hours'
GROUP BY o.hour, o.queue, o.gshare, own.task_id
ORDER BY o.hour, o.queue, o.gshare, own.task_id;

-- name: waits_of_world
-- Waiting times in the days that brokerage looks back.
-- told by: PRODUCTION
SELECT hour, queue, gshare, job_type, n_jobs, wait_s, wait_squared_s2
FROM queue_waits WHERE hour > orrery_now() - interval '4 days'
ORDER BY hour, queue, gshare, job_type;

-- name: waiting_merge_jobs_of_world
-- Analysis merge jobs that wait, with the moment from which they do. Index jobs_merging.
-- told by: PRODUCTION
SELECT j.queue, j.creation_time AS since
FROM jobs j JOIN tasks t USING (task_id)
WHERE j.job_type = 'merge' AND j.status IN ('activated', 'starting') AND orrery_is_analysis(t.task_type, j.prod_source_label)
ORDER BY j.queue, j.creation_time, j.job_id;

-- name: group_usage_of_world
-- Running and queued jobs of each working group of a VO that has a live task which the reader may have in full.
-- told by: PRODUCTION
SELECT t.working_group, coalesce(t.vo, '') AS vo,
       count(*) FILTER (WHERE j.status = 'running') AS running_jobs,
       count(*) FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')) AS queued_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0) AS running_cores,
       coalesce(sum(j.core_count) FILTER (WHERE j.status IN ('defined', 'assigned', 'activated', 'sent', 'starting')), 0)
           AS queued_cores
FROM jobs j JOIN tasks t USING (task_id)
WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
GROUP BY t.working_group, coalesce(t.vo, '')
HAVING bool_or(orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[]))
ORDER BY t.working_group, vo;

-- name: people_of_world
-- Whoever has live tasks that the reader may have in full: their names are told, and quotas and usage of those who
-- submitted one themselves. Index tasks_live.
-- told by: PRODUCTION
SELECT user_name, coalesce(bool_or(submitted_by = user_name), false) AS submits FROM tasks
WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
  AND orrery_may_read(user_name, vo, :reader::text, :own_vos::text[], :produced_vos::text[])
GROUP BY user_name;

-- name: users_of_world
-- Disk quota and use of each user, for a VO or ('') for all.
-- told by: PRODUCTION
SELECT user_name, vo, disk_quota_gb, disk_used_gb FROM users ORDER BY user_name, vo;

-- name: adverts_of_world
-- Advertisements of sites that are still believed.
-- told by: PRODUCTION
SELECT site, max_jobs, max_submitting_jobs, current_jobs, current_submitting_jobs, current_matches, requirements,
       advertisement, expires_at
FROM site_adverts WHERE expires_at > orrery_now() ORDER BY site;

-- name: parameters_of_world
-- All runtime parameters that are set.
-- told by: PRODUCTION
SELECT app, component, key, vo, value, type FROM parameters ORDER BY app, component, key, vo;

-- name: user_groups_of_world
-- What groups of users are due.
-- told by: PRODUCTION
SELECT vo, name, job_share, job_sharing, allows_background FROM user_groups ORDER BY vo, name;

-- name: group_corrections_of_world
-- Factors of groups of users, and of users in them.
-- told by: PRODUCTION
SELECT vo, user_group, user_name, correction_factor FROM group_corrections ORDER BY vo, user_group, user_name;

-- name: task_queues_of_world
-- Task queues in which jobs wait, with how many of each user priority. Index jobs_order_key.
-- told by: PRODUCTION
SELECT q.vo, q.user_name, q.user_group, q.cpu_segment_s, q.sites, q.banned_sites, q.platforms, q.tags, q.job_types,
       jsonb_object_agg(k.user_priority, waiting.n_jobs) AS n_jobs
FROM (SELECT order_key_id, count(*) AS n_jobs FROM jobs WHERE order_key_id <> 0 AND status = 'activated'
      GROUP BY order_key_id) waiting
JOIN order_keys k USING (order_key_id) JOIN task_queues q USING (task_queue_id)
GROUP BY q.task_queue_id ORDER BY q.task_queue_id;
