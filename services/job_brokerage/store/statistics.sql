-- name: fold_moves
-- Rows come sorted by key, so that two replicas never wait for each other in a circle.
INSERT INTO queue_statistics AS known (queue, resource_type, gshare, user_name, status, vo, n_jobs, n_cores)
SELECT * FROM unnest(:queues::text[], :resource_types::text[], :gshares::text[], :users::text[], :statuses::text[],
                     :vos::text[], :n_jobs::bigint[], :n_cores::bigint[])
ON CONFLICT (queue, resource_type, gshare, user_name, status, vo) DO UPDATE
SET n_jobs = known.n_jobs + excluded.n_jobs, n_cores = known.n_cores + excluded.n_cores, version = known.version + 1;

-- name: vos_of_tasks
-- For which VO tasks are, '' for none. The key of tasks.
SELECT task_id, coalesce(vo, '') AS vo FROM tasks WHERE task_id = ANY(:task_ids::bigint[]);

-- name: note_counted
-- The jobs of this chunk are counted with this transaction.
INSERT INTO counted_chunks (chunk_id) VALUES (:chunk_id) ON CONFLICT DO NOTHING;

-- name: note_activity
-- The latest pilots and starts of jobs at queues, to the second: a row that would hardly change is not locked.
INSERT INTO queue_activity AS known (queue, last_pilot_at, last_job_start_at)
SELECT told.queue, told.pilot_at, told.start_at
  FROM unnest(:queues::text[], :pilots::timestamptz[], :starts::timestamptz[]) AS told (queue, pilot_at, start_at)
  LEFT JOIN queue_activity a ON a.queue = told.queue
 WHERE told.pilot_at > coalesce(a.last_pilot_at + interval '1 second', '-infinity')
    OR told.start_at > coalesce(a.last_job_start_at + interval '1 second', '-infinity')
 ORDER BY told.queue
ON CONFLICT (queue) DO UPDATE
SET last_pilot_at = greatest(known.last_pilot_at, excluded.last_pilot_at),
    last_job_start_at = greatest(known.last_job_start_at, excluded.last_job_start_at);

-- name: fold_outcomes
-- What became of jobs, added to the hour's counts.
INSERT INTO queue_outcomes AS known (hour, queue, gshare, task_id, n_started, n_finished, n_failed, n_closed, n_cancelled)
SELECT * FROM unnest(:hours::timestamptz[], :queues::text[], :gshares::text[], :task_ids::bigint[], :n_started::int[],
                     :n_finished::int[], :n_failed::int[], :n_closed::int[], :n_cancelled::int[])
ON CONFLICT (hour, queue, gshare, task_id) DO UPDATE
SET n_started = known.n_started + excluded.n_started, n_finished = known.n_finished + excluded.n_finished,
    n_failed = known.n_failed + excluded.n_failed, n_closed = known.n_closed + excluded.n_closed,
    n_cancelled = known.n_cancelled + excluded.n_cancelled;

-- name: fold_waits
-- Waiting times of jobs that have just started; one that is already archived is left out, which is only a sample less.
INSERT INTO queue_waits AS known (hour, queue, gshare, job_type, n_jobs, wait_s, wait_squared_s2)
SELECT date_trunc('hour', start_time), queue, gshare, job_type, count(*), sum(wait_s), sum(wait_s * wait_s)
FROM (SELECT start_time, queue, gshare, job_type,
             greatest(0, extract(epoch FROM start_time - creation_time))::float8 AS wait_s
      FROM jobs WHERE job_id = ANY(:job_ids::bigint[]) AND start_time IS NOT NULL) started
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
ON CONFLICT (hour, queue, gshare, job_type) DO UPDATE
SET n_jobs = known.n_jobs + excluded.n_jobs, wait_s = known.wait_s + excluded.wait_s,
    wait_squared_s2 = known.wait_squared_s2 + excluded.wait_squared_s2;

-- name: statistics_of
-- Moves are folded in any order: a count may be below nothing for a moment, and then is none.
SELECT queue, resource_type, status, sum(n_jobs)::bigint AS n_jobs, vo
FROM queue_statistics WHERE queue = ANY(:queues::text[])
GROUP BY queue, resource_type, status, vo
HAVING sum(n_jobs) > 0;

-- name: activity_of
-- Activity and slots of queues, as they are published.
SELECT queue, last_pilot_at, last_job_start_at, running_workers, submitted_workers, slots.n_slots,
       mean_disk_io_kb_s_per_core, known_since, coalesce(slots.slots_of_type, '{}') AS slots_of_type
FROM queue_activity LEFT JOIN valid_queue_slots slots USING (queue)
WHERE queue = ANY(:queues::text[]);

-- name: bump_version
-- Held until the commit: publishers follow one another, so a higher version was read later.
INSERT INTO versions (name, version, changed_at) VALUES ('statistics', 1, orrery_now())
ON CONFLICT (name) DO UPDATE SET version = versions.version + 1, changed_at = orrery_now()
RETURNING version;

-- name: mark_published
-- Who missed the news reads the queues that were published after the version it has.
INSERT INTO queue_activity AS known (queue, statistics_version)
SELECT unnest(:queues::text[]), :version
ON CONFLICT (queue) DO UPDATE SET statistics_version = excluded.statistics_version;

-- name: measure_disk_io
-- Mean disk IO for each core over the running jobs of these queues, by what their tasks state or scouts measured; of
-- queues between them by name none runs. LIMIT keeps the look-up of each task at one index entry. Index jobs_live.
WITH measured AS (
    SELECT j.queue, sum(j.n_jobs * t.disk_io) / sum(j.n_cores) AS mean_kb_s
    FROM (SELECT queue, task_id, count(*) AS n_jobs, sum(core_count)::float8 AS n_cores
          FROM jobs WHERE status = 'running' AND queue = ANY(:queues::text[]) GROUP BY queue, task_id) j
    CROSS JOIN LATERAL (SELECT disk_io FROM tasks WHERE task_id = j.task_id AND disk_io IS NOT NULL LIMIT 1) t
    GROUP BY j.queue)
UPDATE queue_activity a SET mean_disk_io_kb_s_per_core = m.mean_kb_s
FROM (SELECT q.queue, measured.mean_kb_s FROM queue_activity q LEFT JOIN measured USING (queue)
      WHERE q.queue > :after::text AND (:upto::text IS NULL OR q.queue <= :upto)) m
WHERE a.queue = m.queue AND a.mean_disk_io_kb_s_per_core IS DISTINCT FROM m.mean_kb_s
RETURNING a.queue;

-- name: drift
-- What table jobs says of these queues that the statistics do not, row by row. LIMIT keeps the look-up of each task at one index
-- entry. Indexes jobs_live, queue_statistics_pkey.
SELECT coalesce(j.queue, s.queue) AS queue, coalesce(j.resource_type, s.resource_type) AS resource_type,
       coalesce(j.gshare, s.gshare) AS gshare, coalesce(j.user_name, s.user_name) AS user_name,
       coalesce(j.status, s.status) AS status, coalesce(j.vo, s.vo) AS vo,
       (coalesce(j.n_jobs, 0) - coalesce(s.n_jobs, 0))::bigint AS n_jobs,
       (coalesce(j.n_cores, 0) - coalesce(s.n_cores, 0))::bigint AS n_cores, coalesce(s.version, 0) AS version
FROM (SELECT c.queue, c.resource_type, c.gshare, c.user_name, c.status, coalesce(t.vo, '') AS vo,
             sum(c.n_jobs)::bigint AS n_jobs, sum(c.n_cores)::bigint AS n_cores
      FROM (SELECT task_id, queue, resource_type, gshare, user_name, status, count(*) AS n_jobs,
                   sum(core_count)::bigint AS n_cores
            FROM jobs WHERE queue = ANY(:queues::text[]) AND status NOT IN ('finished', 'failed', 'closed', 'cancelled')
            GROUP BY task_id, queue, resource_type, gshare, user_name, status) c
      LEFT JOIN LATERAL (SELECT vo FROM tasks WHERE task_id = c.task_id LIMIT 1) t ON true
      GROUP BY c.queue, c.resource_type, c.gshare, c.user_name, c.status, coalesce(t.vo, '')) j
FULL JOIN (SELECT * FROM queue_statistics WHERE queue = ANY(:queues::text[])) s
     USING (queue, resource_type, gshare, user_name, status, vo)
WHERE coalesce(j.n_jobs, 0) <> coalesce(s.n_jobs, 0) OR coalesce(j.n_cores, 0) <> coalesce(s.n_cores, 0);

-- name: count_workers
-- Workers of each queue as job_dispatch last heard of them; rows that changed nothing are not written. A pilot calls
-- itself started, a factory calls it running or submitted.
INSERT INTO queue_activity AS known (queue, running_workers, submitted_workers, last_pilot_at)
SELECT queue, count(*) FILTER (WHERE status IN ('started', 'running')), count(*) FILTER (WHERE status = 'submitted'),
       max(updated_at) FILTER (WHERE status IN ('started', 'running'))
FROM workers WHERE status IN ('started', 'running', 'submitted') GROUP BY queue ORDER BY queue
ON CONFLICT (queue) DO UPDATE
SET running_workers = excluded.running_workers, submitted_workers = excluded.submitted_workers,
    last_pilot_at = greatest(known.last_pilot_at, excluded.last_pilot_at)
WHERE (known.running_workers, known.submitted_workers) IS DISTINCT FROM
      (excluded.running_workers, excluded.submitted_workers)
   OR known.last_pilot_at IS DISTINCT FROM greatest(known.last_pilot_at, excluded.last_pilot_at)
RETURNING queue;

-- name: forget_workers
-- Queues whose workers are all gone.
UPDATE queue_activity SET running_workers = 0, submitted_workers = 0
WHERE (running_workers > 0 OR submitted_workers > 0)
  AND queue NOT IN (SELECT queue FROM workers WHERE status IN ('started', 'running', 'submitted'))
RETURNING queue;

-- name: forget_history
-- Hours that no decision looks back at, and chunks that nobody expects any more.
WITH waits AS (DELETE FROM queue_waits WHERE hour < :older_than),
     counted AS (DELETE FROM counted_chunks WHERE counted_at < :older_than)
DELETE FROM queue_outcomes WHERE hour < :older_than;
