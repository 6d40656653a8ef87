-- name: note_wait
-- A part of a task waits (again), with what held it. A wake that placed nothing before is counted, and backed off from.
WITH of_chunk AS (SELECT coalesce(:work::text, work) AS work, coalesce(:part::text, part) AS part
                    FROM orrery_part_of_chunk(:chunk_id)),
before AS (
    SELECT w.woken_by, w.woken_at IS NOT NULL AND w.placed_at IS NULL AS was_futile,
           w.placed_at IS NOT NULL AS was_placed, w.n_futile
    FROM waits w JOIN of_chunk USING (work, part) WHERE w.task_id = :task_id AND w.kind = :kind FOR UPDATE OF w),
counted AS (
    SELECT CASE WHEN b.was_futile THEN least(b.n_futile + 1, 30) WHEN b.was_placed THEN 0 ELSE coalesce(b.n_futile, 0)
           END AS n_futile, coalesce(b.was_futile, false) AS was_futile, coalesce(b.was_placed, true) AS is_new
    FROM (SELECT 1) one LEFT JOIN before b ON true),
noted AS (
    INSERT INTO waits AS w (task_id, kind, work, part, decision_id, chunk_id, n_jobs, causes, world_version,
                            config_version, retry_at, n_futile)
    SELECT :task_id, :kind, work, part, :decision_id, :chunk_id, :n_jobs, :causes, :world_version, :config_version,
           :retry_at, n_futile
    FROM counted, of_chunk
    ON CONFLICT (task_id, kind, work, part) DO UPDATE
    SET decision_id = excluded.decision_id, chunk_id = excluded.chunk_id, n_jobs = excluded.n_jobs,
        causes = excluded.causes, world_version = excluded.world_version, config_version = excluded.config_version,
        decided_at = orrery_now(), retry_at = excluded.retry_at, wake_nr = w.wake_nr + 1, n_futile = excluded.n_futile,
        since = CASE WHEN (SELECT is_new FROM counted) THEN orrery_now() ELSE w.since END,
        not_before = CASE WHEN (SELECT was_futile FROM counted)
                          THEN orrery_now() + make_interval(secs => least(:longest_s::float8,
                                                            :shortest_s::float8 * 2.0 ^ (excluded.n_futile - 1)))
                     END,
        woken_at = NULL, woken_by = NULL, woken_for = NULL, room_since = NULL, placed_at = NULL,
        placed_chunk_id = NULL, changed_by = pg_current_xact_id()::text::bigint)
SELECT woken_by FROM before WHERE was_futile;

-- name: horizon
-- Whatever committed before every transaction that runs now is below this.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: changed_waits
-- Waits of a kind that changed since, with what their tasks are ranked by. Index waits_changed.
SELECT w.task_id, w.work, w.part, w.wake_nr, w.n_jobs, w.since, w.decided_at, w.retry_at, w.causes, w.world_version, w.config_version, w.not_before,
       w.woken_at, w.woken_for, w.placed_at, w.placed_chunk_id, coalesce(t.gshare, '') AS gshare,
       t.current_priority AS priority, coalesce(t.user_name, '') AS "user", coalesce(t.vo, '') AS vo,
       coalesce(t.working_group, '') AS working_group, coalesce(t.resource_type, '') AS resource_type
FROM waits w JOIN tasks t USING (task_id)
WHERE w.kind = :kind AND w.changed_by >= :horizon::bigint
ORDER BY w.task_id, w.work, w.part;

-- name: replicas_of_waits
-- Of these waiting tasks, those whose input was given a copy after, or while, it was decided about them.
SELECT DISTINCT w.task_id, w.work, w.part, w.wake_nr
FROM waits w
JOIN task_datasets t ON t.task_id = w.task_id AND t.type = 'input'
JOIN catalogue.datasets d ON d.name = t.dataset_name
JOIN catalogue.dataset_replicas r ON r.dataset_id = d.dataset_id
WHERE w.task_id = ANY(:task_ids::bigint[]) AND w.kind = :kind AND w.woken_at IS NULL
  AND r.changed_at > w.decided_at - make_interval(secs => :unseen_s::float8);

-- name: changed_replicas
-- Waiting tasks whose input was given a copy since. A transaction that is under way somewhere may bring the same again.
SELECT DISTINCT w.task_id, w.work, w.part, w.wake_nr
FROM catalogue.dataset_replicas r
JOIN catalogue.datasets d USING (dataset_id)
JOIN task_datasets t ON t.dataset_name = d.name AND t.type = 'input'
JOIN waits w ON w.task_id = t.task_id AND w.kind = :kind AND w.woken_at IS NULL AND w.causes -> 'lifts' ? 'REPLICA'
WHERE r.changed_by >= :horizon::bigint AND r.changed_at > w.decided_at - make_interval(secs => :unseen_s::float8);

-- name: try_lock
-- One replica at a time gives wakes of a kind; the others leave it to that one.
SELECT pg_try_advisory_xact_lock(hashtext('wakes'), hashtext(:kind));

-- name: wake_tasks
-- Only parts of tasks that still wait for what was decided: by compare-and-set. Merges are held with their own chunk, job
-- sets by their own time, other work by the task's or with a chunk. A chunk that was decided on and is still offered has
-- to come back first: until then its input cannot be offered again, and the wake would be for nothing.
UPDATE waits w
SET woken_at = orrery_now(), woken_by = c.cause, woken_for = c.woken_for, room_since = c.room_since,
    changed_by = pg_current_xact_id()::text::bigint
FROM unnest(:task_ids::bigint[], :works::text[], :parts::text[], :wake_nrs::int[], :causes::text[], :woken_for::text[],
            :room_since::timestamptz[]) AS c (task_id, work, part, wake_nr, cause, woken_for, room_since)
JOIN tasks t USING (task_id)
WHERE w.task_id = c.task_id AND w.kind = :kind AND w.work = c.work AND w.part = c.part AND w.wake_nr = c.wake_nr
  AND w.woken_at IS NULL AND w.retry_at > orrery_now() AND t.status = ANY(:statuses::text[])
  AND CASE w.work WHEN 'merge' THEN EXISTS (SELECT FROM chunks h
                                             WHERE h.task_id = w.task_id AND h.chunk_id = w.chunk_id AND h.retry_at > orrery_now())
                  WHEN 'job sets' THEN t.co_jumbo_retry_at > orrery_now()
                  ELSE t.status NOT IN ('throttled', 'exhausted')
                       AND (t.retry_at > orrery_now()
                            OR EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at > orrery_now()))
      END
  AND NOT EXISTS (SELECT FROM chunks o WHERE o.task_id = w.task_id AND o.chunk_id = w.chunk_id AND o.status = 'offered')
RETURNING w.task_id, w.work, w.part;

-- name: patient
-- Parts of tasks that wait for a queue, for so long at least, and could be woken.
-- told by: OPERATORS
SELECT w.task_id, w.work, w.part, w.wake_nr, w.causes
FROM waits w JOIN tasks t USING (task_id)
WHERE w.kind = 'queue' AND w.woken_at IS NULL AND w.retry_at > orrery_now() AND t.status = ANY(:statuses::text[])
  AND greatest(w.decided_at, w.not_before) <= orrery_now() - make_interval(secs => :for_s::float8)
  AND CASE w.work WHEN 'merge' THEN EXISTS (SELECT FROM chunks h
                                             WHERE h.task_id = w.task_id AND h.chunk_id = w.chunk_id AND h.retry_at > orrery_now())
                  WHEN 'job sets' THEN t.co_jumbo_retry_at > orrery_now()
                  ELSE t.status NOT IN ('throttled', 'exhausted')
                       AND (t.retry_at > orrery_now()
                            OR EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at > orrery_now()))
      END
ORDER BY w.task_id, w.work, w.part;

-- name: nobody_wakes
-- Work that is held for minutes to come, whatever kind it is, without a row that says what wakes it. A chunk about which
-- no brokerage decided comes back in a minute. Jumbo jobs, and sets that wait for co-jumbo jobs, are held by the time of
-- their task; input that waits for a library is woken by the end of a build, if one is under way. Indexes chunks_held,
-- job_sets_open, tasks_co_jumbo_retry, tasks_retry, jobs_task, waits_pkey.
-- told by: OPERATORS
SELECT h.task_id, h.work, h.part FROM (
       SELECT c.task_id, p.work, p.part FROM chunks c CROSS JOIN LATERAL orrery_part_of_chunk(c.chunk_id) p
        WHERE c.retry_at > orrery_now() + interval '2 minutes'
       UNION
       SELECT s.task_id, 'job sets', 'next jobs' FROM job_sets s
        WHERE s.status IN ('open', 'merging') AND s.retry_at > orrery_now() + interval '2 minutes'
       UNION
       SELECT t.task_id, 'job sets', 'jumbo jobs' FROM tasks t
        WHERE t.co_jumbo_retry_at > orrery_now() + interval '2 minutes' AND t.status IN ('ready', 'scouting', 'running')
          AND NOT EXISTS (SELECT FROM waits w
                           WHERE w.task_id = t.task_id AND w.kind = 'queue' AND w.work = 'job sets')
          AND EXISTS (SELECT FROM job_sets s WHERE s.task_id = t.task_id AND s.status = 'open' AND s.n_ready > 0)
          AND NOT EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.job_type = 'jumbo'
                             AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled'))
       UNION
       SELECT t.task_id, 'build', '' FROM tasks t
        WHERE t.retry_at > orrery_now() + interval '2 minutes' AND t.status IN ('ready', 'scouting', 'running')
          AND t.split_rule @> '{"useBuild": true}'
          AND NOT EXISTS (SELECT FROM waits w WHERE w.task_id = t.task_id)
          AND NOT EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.job_type = 'build'
                             AND j.results_applied_at IS NULL)
       UNION
       SELECT t.task_id, 'preprocess', '' FROM tasks t
        WHERE t.status IN ('topreprocess', 'preprocessing') AND t.retry_at > orrery_now() + interval '2 minutes') h
  JOIN tasks t USING (task_id)
 WHERE t.status = ANY(:statuses::text[])
   AND NOT EXISTS (SELECT FROM waits w
                    WHERE w.task_id = h.task_id AND w.kind = 'queue' AND w.work = h.work AND w.part = h.part)
 ORDER BY h.task_id, h.work, h.part;

-- name: changed_queues
-- Queues where a job has changed its state within so many seconds: there may have been no room.
-- told by: OPERATORS
SELECT DISTINCT queue FROM jobs
WHERE queue IS NOT NULL AND state_change_time > orrery_now() - make_interval(secs => :for_s::float8);

-- name: not_told_yet
-- Of these parts of tasks, those that were decided about and not told so yet, or have been just now.
SELECT w.task_id, w.work, w.part
FROM unnest(:task_ids::bigint[], :works::text[], :parts::text[], :wake_nrs::int[]) AS c (task_id, work, part, wake_nr)
JOIN waits w ON w.task_id = c.task_id AND w.kind = :kind AND w.work = c.work AND w.part = c.part AND w.wake_nr = c.wake_nr
JOIN tasks t ON t.task_id = c.task_id
WHERE w.woken_at IS NULL AND w.retry_at > orrery_now() AND t.status = ANY(:statuses::text[])
  AND (t.retry_at > orrery_now() OR t.co_jumbo_retry_at > orrery_now()
       OR EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at > orrery_now())
       OR EXISTS (SELECT FROM chunks o
                  WHERE o.task_id = w.task_id AND o.chunk_id = w.chunk_id AND o.status = 'offered'));

-- name: note_placed
-- A part of a task was placed after it was woken. Memory may have been raised meanwhile, which makes it another part: what
-- was woken of the same dataset or queue is placed with it, and takes room for nobody else any more.
UPDATE waits w
SET placed_at = orrery_now(), placed_chunk_id = :chunk_id, changed_by = pg_current_xact_id()::text::bigint
FROM (SELECT coalesce(:work::text, work) AS work, coalesce(:part::text, part) AS part
        FROM orrery_part_of_chunk(:chunk_id)) one
WHERE w.task_id = :task_id AND w.kind = :kind AND w.work = one.work
  AND split_part(w.part, ' ', 1) = split_part(one.part, ' ', 1) AND w.woken_at IS NOT NULL AND w.placed_at IS NULL
RETURNING woken_by, extract(epoch FROM orrery_now() - room_since)::float8 AS waited_s;

-- name: forget_waits
-- Parts of tasks that went on, or ended.
DELETE FROM waits w
USING tasks t
WHERE t.task_id = w.task_id AND w.kind = :kind
  AND (w.placed_at < orrery_now() - interval '1 minute'
       OR (t.retry_at IS NULL AND t.co_jumbo_retry_at IS NULL AND t.status <> 'pending'
           AND greatest(w.decided_at, w.woken_at) < orrery_now() - interval '1 minute'
           AND NOT EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at IS NOT NULL)
           AND NOT EXISTS (SELECT FROM chunks o WHERE o.chunk_id = w.chunk_id AND o.status = 'offered'))
       OR w.retry_at < orrery_now() - interval '1 hour'
       OR t.status IN ('done', 'finished', 'failed', 'broken', 'aborted'));
