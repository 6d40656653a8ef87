-- name: fold_usage
-- Rows come sorted by key, so that two replicas never wait for each other in a circle. A task that is not known has no
-- VO and no group.
INSERT INTO usage_buckets AS known (ends_at, gshare, vo, working_group, user_name, cores, hs06, core_s, hs06_s)
SELECT c.ends_at, c.gshare, coalesce(t.vo, ''), coalesce(t.working_group, ''), c.user_name,
       sum(c.cores), sum(c.hs06), sum(c.core_s), sum(c.hs06_s)
  FROM unnest(:ends_at::timestamptz[], :task_ids::bigint[], :gshares::text[], :user_names::text[], :cores::bigint[],
              :hs06::float8[], :core_s::float8[], :hs06_s::float8[])
       AS c (ends_at, task_id, gshare, user_name, cores, hs06, core_s, hs06_s)
  LEFT JOIN tasks t USING (task_id)
 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (ends_at, gshare, vo, working_group, user_name) DO UPDATE
SET cores = known.cores + excluded.cores, hs06 = known.hs06 + excluded.hs06, core_s = known.core_s + excluded.core_s,
    hs06_s = known.hs06_s + excluded.hs06_s;

-- name: usage_by_span
-- What each user of each share used in each span up to now; a span begins with the bucket that it begins in. What
-- changed before lasts all the span, what changed in it from then on.
WITH span AS (
    SELECT span_s, to_timestamp(floor(extract(epoch FROM orrery_now() - make_interval(secs => span_s)) / :width_s::int)
                                * :width_s::int) AS since
      FROM unnest(:spans_s::float8[]) AS s (span_s)
), changed AS (
    SELECT '-infinity'::timestamptz AS ends_at, gshare, vo, working_group, user_name, hs06, 0::float8 AS hs06_s
      FROM usage_levels
    UNION ALL
    SELECT ends_at, gshare, vo, working_group, user_name, hs06, hs06_s FROM usage_buckets
)
SELECT s.span_s, c.gshare, c.vo, c.working_group, c.user_name,
       sum(CASE WHEN c.ends_at <= s.since THEN c.hs06 * extract(epoch FROM orrery_now() - s.since)::float8
                ELSE c.hs06_s + c.hs06 * extract(epoch FROM orrery_now() - c.ends_at)::float8 END) AS hs06_s
  FROM span s CROSS JOIN changed c
 GROUP BY 1, 2, 3, 4, 5;

-- name: usage_suspects
-- Users whose level of use differs from what the statistics say runs, by how much, and how many jobs of theirs run.
SELECT gshare, vo, user_name, sum(cores)::bigint AS cores, sum(hs06)::float8 AS hs06, sum(n_jobs)::bigint AS n_jobs
  FROM (SELECT s.gshare, s.vo, s.user_name, s.n_cores AS cores,
               s.n_cores * coalesce(q.core_power_hs06, :usual_hs06::float8) AS hs06, s.n_jobs
          FROM queue_statistics s
          LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06)
                 ON q.queue = s.queue
         WHERE s.status = 'running'
        UNION ALL
        SELECT gshare, vo, user_name, -cores, -hs06, 0 FROM usage_levels
        UNION ALL
        SELECT gshare, vo, user_name, -sum(cores), -sum(hs06), 0 FROM usage_buckets GROUP BY 1, 2, 3) use
 GROUP BY 1, 2, 3
HAVING sum(cores) <> 0 OR abs(sum(hs06)) > 0.5;

-- name: usage_differences
-- By how much what runs now of these users differs from the level of use, row by row. Indexes tasks_of_live_users,
-- jobs_task.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(:gshares::text[], :vos::text[], :user_names::text[]) AS a (gshare, vo, user_name))
SELECT gshare, vo, working_group, user_name, sum(cores)::bigint AS cores, sum(hs06)::float8 AS hs06
  FROM (SELECT a.gshare, a.vo, coalesce(t.working_group, '') AS working_group, a.user_name,
               sum(j.core_count) AS cores, sum(j.core_count * coalesce(q.core_power_hs06, :usual_hs06::float8)) AS hs06
          FROM asked a
          JOIN tasks t ON t.user_name = a.user_name AND coalesce(t.vo, '') = a.vo
           AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
          JOIN jobs j ON j.task_id = t.task_id AND j.status = 'running' AND j.gshare = a.gshare
          LEFT JOIN unnest(:queues::text[], :core_powers_hs06::float8[]) AS q (queue, core_power_hs06)
                 ON q.queue = j.queue
         GROUP BY 1, 2, 3, 4
        UNION ALL
        SELECT gshare, vo, working_group, user_name, -cores, -hs06
          FROM usage_levels JOIN asked USING (gshare, vo, user_name)
        UNION ALL
        SELECT gshare, vo, working_group, user_name, -sum(cores), -sum(hs06)
          FROM usage_buckets JOIN asked USING (gshare, vo, user_name) GROUP BY 1, 2, 3, 4) use
 GROUP BY 1, 2, 3, 4
HAVING sum(cores) <> 0 OR abs(sum(hs06)) > 0.5;

-- name: correct_usage
-- Levels of use that differ from what runs are right from now on; sorted by key.
INSERT INTO usage_buckets AS known (ends_at, gshare, vo, working_group, user_name, cores, hs06, core_s, hs06_s)
SELECT :ends_at::timestamptz, d.gshare, d.vo, d.working_group, d.user_name, d.cores, d.hs06,
       d.cores * extract(epoch FROM :ends_at::timestamptz - orrery_now())::float8,
       d.hs06 * extract(epoch FROM :ends_at::timestamptz - orrery_now())::float8
  FROM unnest(:gshares::text[], :vos::text[], :working_groups::text[], :user_names::text[], :cores::bigint[],
              :hs06::float8[]) AS d (gshare, vo, working_group, user_name, cores, hs06)
ON CONFLICT (ends_at, gshare, vo, working_group, user_name) DO UPDATE
SET cores = known.cores + excluded.cores, hs06 = known.hs06 + excluded.hs06, core_s = known.core_s + excluded.core_s,
    hs06_s = known.hs06_s + excluded.hs06_s;

-- name: forget_buckets
-- Buckets that no slice reads go into the level with which the oldest that is kept begins.
WITH old AS (
    DELETE FROM usage_buckets WHERE ends_at < orrery_now() - make_interval(secs => :older_than_s)
    RETURNING gshare, vo, working_group, user_name, cores, hs06
)
INSERT INTO usage_levels AS known (gshare, vo, working_group, user_name, cores, hs06)
SELECT gshare, vo, working_group, user_name, sum(cores), sum(hs06) FROM old
 GROUP BY 1, 2, 3, 4 HAVING sum(cores) <> 0 OR sum(hs06) <> 0 ORDER BY 1, 2, 3, 4
ON CONFLICT (gshare, vo, working_group, user_name) DO UPDATE
SET cores = known.cores + excluded.cores, hs06 = known.hs06 + excluded.hs06;

-- name: forget_levels
-- Users who run nothing have no level; what is left of sums is none.
DELETE FROM usage_levels WHERE cores = 0 AND abs(hs06) < 0.001;
