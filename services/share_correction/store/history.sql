-- What shares and users used over time, whether anything is corrected or not.

-- name: use_over_time
-- HS06 seconds of each share, or of each user of one share, in buckets that end at a multiple of their width; the last
-- one ends now. Before the first bucket lasts what changed before. A name of a user is told to whoever may read what
-- that user runs in that VO.
-- told by: DETAILS
WITH grid AS (
    SELECT to_timestamp(floor(extract(epoch FROM orrery_now() - make_interval(secs => :span_s)) / :width_s::int)
                        * :width_s::int) AS since, make_interval(secs => :width_s::int) AS width),
    changed AS (
    SELECT '-infinity'::timestamptz AS ends_at, gshare, vo, user_name, hs06, 0::float8 AS hs06_s FROM usage_levels
    UNION ALL
    SELECT ends_at, gshare, vo, user_name, hs06, hs06_s FROM usage_buckets),
    named AS (
    SELECT c.ends_at, c.hs06, c.hs06_s,
           CASE WHEN :gshare::text IS NULL THEN c.gshare
                WHEN orrery_may_read(c.user_name, c.vo, :reader::text, :own_vos::text[], :produced_vos::text[])
                THEN c.user_name ELSE '' END AS name
      FROM changed c WHERE :gshare IS NULL OR c.gshare = :gshare),
    placed AS (
    SELECT n.name, n.hs06, n.hs06_s, n.ends_at,
           CASE WHEN n.ends_at <= g.since THEN -1
                ELSE ceil(extract(epoch FROM n.ends_at - g.since) / :width_s)::int - 1 END AS place
      FROM named n CROSS JOIN grid g),
    summed AS (
    SELECT p.name, p.place, sum(p.hs06) AS level,
           sum(CASE WHEN p.place >= 0 THEN p.hs06_s + p.hs06 * extract(epoch FROM
                    least(g.since + (p.place + 1) * g.width, orrery_now()) - p.ends_at)::float8 ELSE 0 END) AS used
      FROM placed p CROSS JOIN grid g GROUP BY 1, 2),
    buckets AS (
    SELECT place, g.since + place * g.width AS begins_at, least(g.since + (place + 1) * g.width, orrery_now()) AS ends_at
      FROM grid g, generate_series(-1, (:span_s / :width_s)::int + 1) AS place
     WHERE place < 0 OR g.since + place * g.width < orrery_now()),
    told AS (
    SELECT k.name, b.place, b.begins_at, b.ends_at, s.used,
           sum(s.level) OVER (PARTITION BY k.name ORDER BY b.place
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS level
      FROM (SELECT DISTINCT name FROM summed) k CROSS JOIN buckets b
      LEFT JOIN summed s ON s.name = k.name AND s.place = b.place)
SELECT begins_at, ends_at, name,
       greatest(coalesce(used, 0) + coalesce(level, 0) * extract(epoch FROM ends_at - begins_at), 0)::float8 AS hs06_s
  FROM told WHERE place >= 0 ORDER BY begins_at, name;
