-- name: heard_minutes
-- In which minutes calls of pilots of each VO were heard, lately: the long waits in between. Of the row that says that a
-- dispatcher was there, every missing minute, and the last one before. By primary key.
-- told by: nobody; silences of pilots are measured with it
WITH lately AS (
    SELECT vo, minute, lag(minute) OVER (PARTITION BY vo ORDER BY minute) AS earlier
      FROM heard_minutes
     WHERE minute > orrery_now() - make_interval(secs => :look_s::float8)
        OR vo = :everybody AND minute = (
           SELECT max(b.minute) FROM heard_minutes b
            WHERE b.vo = :everybody AND b.minute <= orrery_now() - make_interval(secs => :look_s::float8))
), waits AS (
    SELECT *, minute - earlier > make_interval(
                  secs => CASE WHEN vo = :everybody THEN :missed_s::float8 ELSE :outage_s::float8 END) AS is_long
      FROM lately
)
SELECT vo, min(minute) AS first, max(minute) AS last, count(*)::int AS n_minutes,
       coalesce(array_agg(earlier ORDER BY minute) FILTER (WHERE is_long), '{}') AS begins,
       coalesce(array_agg(minute ORDER BY minute) FILTER (WHERE is_long), '{}') AS ends
  FROM waits GROUP BY vo;
