-- name: note_wait
-- A task waits (again), with what held it. A wake that placed nothing before is counted, and backed off from. What held
-- another chunk of the task, for which nobody woke it yet, still counts: any of the causes wakes the task.
WITH before AS (
    SELECT w.woken_by, w.room_since, w.woken_at IS NOT NULL AND w.placed_at IS NULL AS was_futile,
           w.placed_at IS NOT NULL AS was_placed, w.n_futile,
           w.kind = :kind AND w.chunk_id <> :chunk_id AND w.woken_at IS NULL AND w.placed_at IS NULL
               AND w.retry_at > orrery_now() AS is_of_another_chunk
    FROM waits w WHERE w.task_id = :task_id FOR UPDATE),
counted AS (
    SELECT CASE WHEN b.was_futile THEN least(b.n_futile + 1, 30) WHEN b.was_placed THEN 0 ELSE coalesce(b.n_futile, 0)
           END AS n_futile, coalesce(b.was_futile, false) AS was_futile, coalesce(b.was_placed, true) AS is_new,
           coalesce(b.is_of_another_chunk, false) AS adds
    FROM (SELECT 1) one LEFT JOIN before b ON true),
noted AS (
    INSERT INTO waits AS w (task_id, kind, decision_id, chunk_id, n_jobs, causes, world_version, config_version,
                            retry_at, n_futile)
    SELECT :task_id, :kind, :decision_id, :chunk_id, :n_jobs, :causes, :world_version, :config_version, :retry_at,
           n_futile
    FROM counted
    ON CONFLICT (task_id) DO UPDATE
    SET kind = excluded.kind, decision_id = excluded.decision_id, chunk_id = excluded.chunk_id,
        n_jobs = excluded.n_jobs,
        causes = CASE WHEN (SELECT adds FROM counted) THEN (
                          SELECT jsonb_object_agg(held.name, (
                                     SELECT coalesce(jsonb_agg(DISTINCT one), '[]')
                                     FROM jsonb_array_elements(coalesce(w.causes -> held.name, '[]') || held.of_it) one))
                          FROM jsonb_each(excluded.causes) AS held (name, of_it))
                      ELSE excluded.causes END,
        world_version = CASE WHEN (SELECT adds FROM counted) THEN least(w.world_version, excluded.world_version)
                             ELSE excluded.world_version END,
        config_version = CASE WHEN (SELECT adds FROM counted) THEN least(w.config_version, excluded.config_version)
                              ELSE excluded.config_version END,
        decided_at = CASE WHEN (SELECT adds FROM counted) THEN w.decided_at ELSE orrery_now() END,
        retry_at = excluded.retry_at, wake_nr = w.wake_nr + 1,
        n_futile = excluded.n_futile,
        since = CASE WHEN (SELECT is_new FROM counted) THEN orrery_now() ELSE w.since END,
        not_before = CASE WHEN (SELECT adds FROM counted) THEN w.not_before
                          WHEN (SELECT was_futile FROM counted)
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
SELECT w.task_id, w.wake_nr, w.n_jobs, w.since, w.decided_at, w.retry_at, w.causes, w.world_version, w.config_version, w.not_before,
       w.woken_at, w.woken_for, w.placed_at, w.placed_chunk_id, coalesce(t.gshare, '') AS gshare,
       t.current_priority AS priority, coalesce(t.user_name, '') AS "user", coalesce(t.vo, '') AS vo,
       coalesce(t.working_group, '') AS working_group, coalesce(t.resource_type, '') AS resource_type
FROM waits w JOIN tasks t USING (task_id)
WHERE w.kind = :kind AND w.changed_by >= :horizon::bigint
ORDER BY w.task_id;

-- name: replicas_of_waits
-- Of these waiting tasks, those whose input was given a copy after, or while, it was decided about them.
SELECT DISTINCT w.task_id, w.wake_nr
FROM waits w
JOIN task_datasets t ON t.task_id = w.task_id AND t.type = 'input'
JOIN catalogue.datasets d ON d.name = t.dataset_name
JOIN catalogue.dataset_replicas r ON r.dataset_id = d.dataset_id
WHERE w.task_id = ANY(:task_ids::bigint[]) AND w.kind = :kind AND w.woken_at IS NULL
  AND r.changed_at > w.decided_at - make_interval(secs => :unseen_s::float8);

-- name: changed_replicas
-- Waiting tasks whose input was given a copy since. A transaction that is under way somewhere may bring the same again.
SELECT DISTINCT w.task_id, w.wake_nr
FROM catalogue.dataset_replicas r
JOIN catalogue.datasets d USING (dataset_id)
JOIN task_datasets t ON t.dataset_name = d.name AND t.type = 'input'
JOIN waits w ON w.task_id = t.task_id AND w.kind = :kind AND w.woken_at IS NULL AND w.causes -> 'lifts' ? 'REPLICA'
WHERE r.changed_by >= :horizon::bigint AND r.changed_at > w.decided_at - make_interval(secs => :unseen_s::float8);

-- name: try_lock
-- One replica at a time gives wakes of a kind; the others leave it to that one.
SELECT pg_try_advisory_xact_lock(hashtext('wakes'), hashtext(:kind));

-- name: wake_tasks
-- Only tasks that still wait for what was decided: by compare-and-set. A chunk that was decided on and is still offered
-- has to come back first: until then its input cannot be offered again, and the wake would be for nothing.
UPDATE waits w
SET woken_at = orrery_now(), woken_by = c.cause, woken_for = c.woken_for, room_since = c.room_since,
    changed_by = pg_current_xact_id()::text::bigint
FROM unnest(:task_ids::bigint[], :wake_nrs::int[], :causes::text[], :woken_for::text[], :room_since::timestamptz[])
     AS c (task_id, wake_nr, cause, woken_for, room_since)
JOIN tasks t USING (task_id)
WHERE w.task_id = c.task_id AND w.kind = :kind AND w.wake_nr = c.wake_nr AND w.woken_at IS NULL
  AND w.retry_at > orrery_now() AND t.status = ANY(:statuses::text[])
  AND (t.retry_at > orrery_now()
       OR EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at > orrery_now()))
  AND NOT EXISTS (SELECT FROM chunks o JOIN brokerage_decisions d USING (task_id, chunk_id)
                  WHERE o.task_id = w.task_id AND o.status = 'offered')
RETURNING w.task_id;

-- name: not_told_yet
-- Of these tasks, those that were decided about and not told so yet, or have been just now.
SELECT w.task_id FROM unnest(:task_ids::bigint[], :wake_nrs::int[]) AS c (task_id, wake_nr)
JOIN waits w ON w.task_id = c.task_id AND w.kind = :kind AND w.wake_nr = c.wake_nr
JOIN tasks t ON t.task_id = c.task_id
WHERE w.woken_at IS NULL AND w.retry_at > orrery_now() AND t.status = ANY(:statuses::text[])
  AND (t.retry_at > orrery_now()
       OR EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at > orrery_now())
       OR EXISTS (SELECT FROM chunks o JOIN brokerage_decisions d USING (task_id, chunk_id)
                  WHERE o.task_id = w.task_id AND o.status = 'offered'));

-- name: note_placed
-- A woken task was placed.
UPDATE waits SET placed_at = orrery_now(), placed_chunk_id = :chunk_id, changed_by = pg_current_xact_id()::text::bigint
WHERE task_id = :task_id AND kind = :kind AND woken_at IS NOT NULL AND placed_at IS NULL
RETURNING woken_by, extract(epoch FROM orrery_now() - room_since)::float8 AS waited_s;

-- name: forget_waits
-- Tasks that went on, or ended.
DELETE FROM waits w
USING tasks t
WHERE t.task_id = w.task_id AND w.kind = :kind
  AND (w.placed_at < orrery_now() - interval '1 minute'
       OR (t.retry_at IS NULL AND t.status <> 'pending' AND greatest(w.decided_at, w.woken_at) < orrery_now() - interval '1 minute'
           AND NOT EXISTS (SELECT FROM chunks h WHERE h.task_id = w.task_id AND h.retry_at IS NOT NULL)
           AND NOT EXISTS (SELECT FROM chunks o WHERE o.chunk_id = w.chunk_id AND o.status = 'offered'))
       OR t.status IN ('done', 'finished', 'failed', 'broken', 'aborted', 'exhausted'));
