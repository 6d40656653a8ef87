-- name: first_lanes
-- The shares of a queue that hold activated jobs, and the first jobs of each lane of those that come first in rank order
-- or have urgent work. A loose scan: one index probe per share, then two per lane. It ends at the first order key.
WITH RECURSIVE member AS (
    (SELECT gshare, order_key_id FROM jobs
      WHERE queue = :queue AND status = 'activated' ORDER BY gshare, order_key_id LIMIT 1)
    UNION ALL
    SELECT next.gshare, next.order_key_id FROM member CROSS JOIN LATERAL (
        SELECT j.gshare, j.order_key_id FROM jobs j
         WHERE j.queue = :queue AND j.status = 'activated'
           AND (j.gshare, j.order_key_id) > (member.gshare, member.order_key_id)
         ORDER BY j.gshare, j.order_key_id LIMIT 1) next
     WHERE member.order_key_id = 0
), placed AS (
    SELECT gshare, order_key_id,
           row_number() OVER (ORDER BY array_position(:ranked::text[], gshare), gshare COLLATE "C") AS place
      FROM member
), urgent AS MATERIALIZED (
    SELECT shape_id FROM requirement_shapes WHERE is_urgent
), chosen AS MATERIALIZED (
    SELECT gshare, order_key_id, place <= :n_shares::int OR EXISTS (
             -- a probe for each urgent shape: joined, all jobs of the share may be read to find their shapes
             SELECT FROM urgent CROSS JOIN LATERAL (
                SELECT 1 FROM jobs j WHERE j.queue = :queue AND j.gshare = placed.gshare
                   AND j.order_key_id = placed.order_key_id AND j.shape_id = urgent.shape_id AND j.status = 'activated'
                 LIMIT 1) waits
           ) AS is_read
      FROM placed
)
SELECT chosen.gshare, chosen.order_key_id, chosen.is_read, entry.shape_id, entry.negated_priority, entry.job_id
  FROM chosen LEFT JOIN LATERAL (
    WITH RECURSIVE lane AS (
        (SELECT shape_id FROM jobs
          WHERE chosen.is_read  -- here, not at the join: that would read the lanes before it leaves them out
            AND queue = :queue AND gshare = chosen.gshare AND order_key_id = chosen.order_key_id
            AND status = 'activated' ORDER BY shape_id LIMIT 1)
        UNION ALL
        SELECT next.shape_id FROM lane CROSS JOIN LATERAL (
            SELECT j.shape_id FROM jobs j
             WHERE j.queue = :queue AND j.gshare = chosen.gshare AND j.order_key_id = chosen.order_key_id
               AND j.status = 'activated' AND j.shape_id > lane.shape_id ORDER BY j.shape_id LIMIT 1) next
    )
    SELECT lane.shape_id, first.negated_priority, first.job_id FROM lane CROSS JOIN LATERAL (
        SELECT -j.current_priority AS negated_priority, j.job_id FROM jobs j
         WHERE j.queue = :queue AND j.gshare = chosen.gshare AND j.order_key_id = chosen.order_key_id
           AND j.shape_id = lane.shape_id AND j.status = 'activated'
         ORDER BY (-j.current_priority), j.job_id LIMIT :size::int) first
  ) entry ON true;

-- name: lanes_of
-- The lanes of a queue that hold activated jobs, each with its first job: a loose scan, one index probe per lane however
-- many jobs it holds.
WITH RECURSIVE lane AS (
    (SELECT gshare, order_key_id, shape_id, -current_priority AS negated_priority, job_id FROM jobs
      WHERE queue = :queue AND status = 'activated'
      ORDER BY gshare, order_key_id, shape_id, (-current_priority), job_id LIMIT 1)
    UNION ALL
    SELECT next.gshare, next.order_key_id, next.shape_id, next.negated_priority, next.job_id
      FROM lane CROSS JOIN LATERAL (
        SELECT j.gshare, j.order_key_id, j.shape_id, -j.current_priority AS negated_priority, j.job_id FROM jobs j
         WHERE j.queue = :queue AND j.status = 'activated'
           AND (j.gshare, j.order_key_id, j.shape_id) > (lane.gshare, lane.order_key_id, lane.shape_id)
         ORDER BY j.gshare, j.order_key_id, j.shape_id, (-j.current_priority), j.job_id LIMIT 1) next
)
SELECT gshare, order_key_id, shape_id, negated_priority, job_id FROM lane;

-- name: read_lanes
-- The next entries of each of these lanes of a queue, behind its cursor. Index jobs_lane.
SELECT lane.gshare, lane.order_key_id, lane.shape_id, next.negated_priority, next.job_id
  FROM unnest(:gshares::text[], :order_key_ids::int[], :shape_ids::int[], :after_priorities::int[],
              :after_ids::bigint[])
       AS lane (gshare, order_key_id, shape_id, after_priority, after_id)
 CROSS JOIN LATERAL (
    SELECT -j.current_priority AS negated_priority, j.job_id FROM jobs j
     WHERE j.queue = :queue AND j.gshare = lane.gshare AND j.order_key_id = lane.order_key_id
       AND j.shape_id = lane.shape_id AND j.status = 'activated'
       AND ((-j.current_priority), j.job_id) > (lane.after_priority, lane.after_id)
     ORDER BY (-j.current_priority), j.job_id LIMIT :size::int) next;

-- name: still_activated
-- Of jobs that were lost to a window, those that can still be taken. By primary key.
SELECT j.job_id, j.queue, j.gshare, j.shape_id, j.current_priority AS priority, j.order_key_id
  FROM unnest(:job_ids::bigint[]) AS lost (job_id)
 CROSS JOIN LATERAL (
    SELECT * FROM jobs WHERE jobs.job_id = lost.job_id AND jobs.status || '' = 'activated' LIMIT 1) j;

-- name: orders
-- What live jobs are ordered by. By primary key.
SELECT j.job_id, j.gshare, j.current_priority AS priority FROM unnest(:job_ids::bigint[]) AS asked (job_id)
 CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.job_id = asked.job_id LIMIT 1) j;

-- name: candidates_of_task
-- For a pilot that asks for one task only; it is none of its user's or group's if the pilot works for those alone.
SELECT job_id, gshare, order_key_id, shape_id, -current_priority AS negated_priority FROM jobs
 WHERE task_id = :task_id AND status = 'activated' AND queue = :queue
   AND (:user_name::text IS NULL OR user_name = :user_name)
   AND (:working_group::text IS NULL
        OR EXISTS (SELECT FROM tasks t WHERE t.task_id = :task_id AND t.working_group = :working_group))
 ORDER BY current_priority DESC, job_id LIMIT :size::int;

-- name: candidates_of_user
-- For a pilot that asks for the jobs of one user only, of one working group of theirs perhaps. Indexes tasks_user,
-- jobs_task.
SELECT best.job_id, best.gshare, best.order_key_id, best.shape_id, best.negated_priority FROM tasks t
 CROSS JOIN LATERAL (
    SELECT j.job_id, j.gshare, j.order_key_id, j.shape_id, -j.current_priority AS negated_priority FROM jobs j
     -- an expression, not the column: the lane index would lead through all that waits at the queue
     WHERE j.task_id = t.task_id AND j.status = 'activated' AND j.queue || '' = :queue
     ORDER BY j.current_priority DESC, j.job_id LIMIT :size::int) best
 WHERE t.user_name = :user_name AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND (:working_group::text IS NULL OR t.working_group = :working_group)
 ORDER BY best.negated_priority, best.job_id LIMIT :size::int;

-- name: candidates_of_group
-- For a pilot that asks for the jobs of one working group only. Indexes tasks_of_live_group, jobs_task.
SELECT best.job_id, best.gshare, best.order_key_id, best.shape_id, best.negated_priority FROM tasks t
 CROSS JOIN LATERAL (
    SELECT j.job_id, j.gshare, j.order_key_id, j.shape_id, -j.current_priority AS negated_priority FROM jobs j
     -- an expression, not the column: the lane index would lead through all that waits at the queue
     WHERE j.task_id = t.task_id AND j.status = 'activated' AND j.queue || '' = :queue
     ORDER BY j.current_priority DESC, j.job_id LIMIT :size::int) best
 WHERE t.working_group = :working_group AND t.working_group <> ''
   AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
 ORDER BY best.negated_priority, best.job_id LIMIT :size::int;

-- name: shapes
-- What jobs of these shapes require.
SELECT shape_id, prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo
  FROM requirement_shapes WHERE shape_id = ANY(:shape_ids::int[]);

-- name: job_facts
-- What Requirements of sites may ask of these jobs.
SELECT j.job_id, j.task_id, j.core_count, s.ram_mb, t.user_name, t.current_priority, t.prod_source_label, t.vo,
       t.processing_type, t.working_group, t.gshare, t.split_rule ->> 'requirements' AS requirements
  FROM unnest(:job_ids::bigint[]) AS wanted (job_id)
 CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.job_id = wanted.job_id LIMIT 1) j
 CROSS JOIN LATERAL (SELECT * FROM requirement_shapes WHERE requirement_shapes.shape_id = j.shape_id LIMIT 1) s
 CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.task_id = j.task_id LIMIT 1) t;
