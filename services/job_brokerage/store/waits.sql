-- name: shares_and_usage
-- Running cores of each share.
SELECT s.gshare, s.value, s.parent, coalesce(u.cores, 0)::bigint AS cores
FROM shares s
LEFT JOIN (SELECT gshare, sum(n_cores) AS cores FROM queue_statistics WHERE status = 'running' GROUP BY gshare) u
    USING (gshare)
ORDER BY s.position, s.gshare;

-- name: usage_of_users
-- Running and queued jobs of these users, each of a VO, and their disk; a quota of 0 is none. Index
-- queue_statistics_user.
SELECT u.vo, u.name, coalesce(sum(s.n_jobs) FILTER (WHERE s.status = 'running'), 0)::float8 AS running_jobs,
       coalesce(sum(s.n_cores) FILTER (WHERE s.status = 'running'), 0)::float8 AS running_cores,
       coalesce(sum(s.n_jobs) FILTER (WHERE s.status <> 'running'), 0)::float8 AS queued_jobs,
       coalesce(sum(s.n_cores) FILTER (WHERE s.status <> 'running'), 0)::float8 AS queued_cores,
       coalesce(max(d.disk_used_gb), 0)::float8 AS disk_used_gb,
       coalesce(nullif(max(d.disk_quota_gb), 0), 'Infinity')::float8 AS disk_quota_gb
FROM unnest(:vos::text[], :names::text[]) AS u (vo, name)
LEFT JOIN LATERAL orrery_jobs_of_account(u.name, u.vo) s
     ON s.status IN ('defined', 'assigned', 'activated', 'starting', 'sent', 'running')
LEFT JOIN LATERAL orrery_account(u.name, u.vo) d ON true
GROUP BY u.vo, u.name;

-- name: usage_of_groups
-- Running and queued jobs of these working groups, each of a VO: those of live tasks, as no other has any. Index tasks_of_live_group.
SELECT g.vo, g.name, count(j.job_id) FILTER (WHERE j.status = 'running')::float8 AS running_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status = 'running'), 0)::float8 AS running_cores,
       count(j.job_id) FILTER (WHERE j.status <> 'running')::float8 AS queued_jobs,
       coalesce(sum(j.core_count) FILTER (WHERE j.status <> 'running'), 0)::float8 AS queued_cores,
       0::float8 AS disk_used_gb
FROM unnest(:vos::text[], :names::text[]) AS g (vo, name)
LEFT JOIN tasks t ON t.working_group = g.name AND t.working_group <> '' AND coalesce(t.vo, '') = g.vo
     AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
LEFT JOIN jobs j ON j.task_id = t.task_id
     AND j.status IN ('defined', 'assigned', 'activated', 'starting', 'sent', 'running')
GROUP BY g.vo, g.name;

-- name: queues_with_pilots_again
-- Of these queues, those that a pilot has asked within so many seconds.
SELECT queue FROM queue_activity
WHERE queue = ANY(:queues::text[]) AND last_pilot_at > orrery_now() - make_interval(secs => :within_s::float8);

-- name: advertised_at
-- When a site advertised itself last.
SELECT max(advertised_at) FROM site_adverts WHERE expires_at > orrery_now();
