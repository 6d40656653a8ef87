-- name: inputs_of_task
-- Input datasets of a task, in the order in which they are opened again.
SELECT dataset_id FROM task_datasets
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input') ORDER BY dataset_id;

-- name: last_unit
-- The newest unit of input that a task has now. Index task_files_task.
SELECT coalesce(max(file_id), 0) FROM task_files
 WHERE task_id = :task_id AND type IN ('input', 'pseudo_input', 'pp_input');

-- name: reopen_units
-- The next units of an input in one state become ready with more attempts. Index task_files_state.
WITH chosen AS MATERIALIZED (
        SELECT f.file_id FROM task_files f
         WHERE f.dataset_id = :dataset_id AND f.status = :status AND f.file_id > :after_id
           AND f.file_id <= :last_file_id
         ORDER BY f.file_id LIMIT :size::int FOR UPDATE)
UPDATE task_files f
   SET status = 'ready', max_attempt = greatest(f.max_attempt, f.attempt_nr) + :more::int,
       max_failure = CASE WHEN f.max_failure IS NOT NULL
                          THEN greatest(f.max_failure, f.failed_attempt) + :more::int END
  FROM chosen c WHERE f.file_id = c.file_id
RETURNING f.file_id, coalesce(f.n_events, 0) AS n_events;

-- name: raise_attempts
-- More attempts for the next units of an input that may still be tried, in the order of a key that does not change while
-- they are worked on; those that were given up become ready. Index task_files_unit.
WITH slice AS MATERIALIZED (
        SELECT f.file_id, f.lfn, coalesce(f.start_event, -1) AS start_event FROM task_files f
         WHERE f.dataset_id = :dataset_id
           AND (f.lfn, coalesce(f.start_event, -1)) > (:after_lfn::text, :after_event::bigint)
         ORDER BY f.lfn, coalesce(f.start_event, -1) LIMIT :size::int),
     chosen AS MATERIALIZED (
        SELECT f.file_id, f.status FROM task_files f
         WHERE f.file_id IN (SELECT file_id FROM slice) AND f.file_id <= :last_file_id AND f.max_attempt IS NOT NULL
           AND f.status IN ('ready', 'picked', 'running', 'pending', 'staging', 'missing', 'failed')
         ORDER BY f.file_id FOR UPDATE),
     raised AS (
        UPDATE task_files f
           SET status = CASE WHEN c.status = 'failed' THEN 'ready' ELSE c.status END,
               max_attempt = CASE WHEN c.status = 'failed' THEN greatest(f.max_attempt, f.attempt_nr)
                                  ELSE f.max_attempt END + :more::int,
               max_failure = CASE WHEN c.status = 'failed' THEN greatest(f.max_failure, f.failed_attempt) + :more::int
                                  ELSE f.max_failure END
          FROM chosen c WHERE f.file_id = c.file_id
        RETURNING f.file_id, c.status, coalesce(f.n_events, 0) AS n_events)
SELECT count(*)::int AS n_looked_at, last.lfn AS last_lfn, last.start_event::bigint AS last_event,
       coalesce((SELECT array_agg(file_id ORDER BY file_id) FROM raised WHERE status = 'failed'), '{}') AS reopened,
       (SELECT coalesce(sum(n_events), 0) FROM raised WHERE status = 'failed')::bigint AS n_events
  FROM slice LEFT JOIN LATERAL (
       SELECT s.lfn, s.start_event FROM slice s ORDER BY s.lfn DESC, s.start_event DESC LIMIT 1) last ON true
 GROUP BY last.lfn, last.start_event;

-- name: count_reopened
-- The counters of a dataset follow the units that are ready again.
UPDATE task_datasets
   SET n_files_used = n_files_used - :n_failed::bigint, n_files_failed = n_files_failed - :n_failed::bigint,
       n_events_used = n_events_used - :n_events::bigint, modification_time = orrery_now()
 WHERE dataset_id = :dataset_id;

-- name: keep_reopening
-- What is left of a command for later slices.
INSERT INTO reopenings (task_id, kind, came_from, verb, details, reason, by_production, steps, position, last_file_id,
                        n_reopened, n_left)
VALUES (:task_id, :kind, :came_from, :verb, :details::jsonb, :reason, :by_production, :steps::jsonb, :position::jsonb,
        :last_file_id, :n_reopened, :n_left);

-- name: next_reopening
-- The command that waited longest for a slice. Index reopenings_turn.
SELECT reopening_id, task_id, kind, came_from, verb, details, reason, by_production, steps, position, last_file_id,
       n_reopened, n_left
  FROM reopenings ORDER BY moved_at, reopening_id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: note_position
-- A slice was done; the other commands have their turn first.
UPDATE reopenings SET position = :position::jsonb, n_reopened = :n_reopened, moved_at = orrery_now()
 WHERE reopening_id = :reopening_id;

-- name: end_reopening
-- Nothing of it is left, or its task has moved on.
DELETE FROM reopenings WHERE reopening_id = :reopening_id;

-- name: say_progress
-- What its owner reads meanwhile, while the task does nothing else.
UPDATE tasks SET error_dialog = :said WHERE task_id = :task_id AND status IN ('toretry', 'toincexec');
