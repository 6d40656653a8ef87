-- name: heard_minutes
-- In which minutes calls of pilots of each VO were heard, lately, and the last one before: the long waits in between, and
-- until now, with how many minutes were heard in the hours up to each. Of the row that says that a dispatcher was there,
-- every missing minute. Begins with the VOs, one after the other. By primary key.
-- told by: nobody; silences of pilots are measured with it
WITH RECURSIVE vos AS (
    SELECT min(vo) AS vo FROM heard_minutes
    UNION ALL
    SELECT (SELECT min(h.vo) FROM heard_minutes h WHERE h.vo > v.vo) FROM vos v WHERE v.vo IS NOT NULL
), lately AS (
    SELECT v.vo, h.minute FROM vos v CROSS JOIN LATERAL (
           SELECT b.minute FROM heard_minutes b
            WHERE b.vo = v.vo AND b.minute > orrery_now() - make_interval(secs => :look_s::float8)
           UNION ALL
           SELECT max(b.minute) FROM heard_minutes b
            WHERE b.vo = v.vo AND b.minute <= orrery_now() - make_interval(secs => :look_s::float8)) h
     WHERE h.minute IS NOT NULL
), waits AS (
    SELECT vo, minute, lead(minute, 1, orrery_now()) OVER (PARTITION BY vo ORDER BY minute) AS next,
           count(*) OVER (PARTITION BY vo ORDER BY minute
                          RANGE BETWEEN make_interval(secs => :usual_s::float8) PRECEDING AND CURRENT ROW) AS n_before
      FROM lately
), told AS (
    SELECT *, next - minute > make_interval(
                  secs => CASE WHEN vo = :everybody THEN :missed_s::float8 ELSE :outage_s::float8 END) AS is_long
      FROM waits
)
SELECT vo, min(minute) AS first,
       coalesce(array_agg(minute ORDER BY minute) FILTER (WHERE is_long), '{}') AS begins,
       coalesce(array_agg(next ORDER BY minute) FILTER (WHERE is_long), '{}') AS ends,
       coalesce(array_agg(n_before ORDER BY minute) FILTER (WHERE is_long), '{}') AS n_before
  FROM told GROUP BY vo;
