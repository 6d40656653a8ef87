-- name: count_pseudo
-- Pseudo input is ready with its rows.
UPDATE task_datasets
   SET status = 'ready', n_files = :n_files, n_files_to_be_used = :n_opened, n_events = :n_events,
       n_events_to_be_used = :n_events, n_events_used = CASE WHEN :n_events::bigint IS NULL THEN NULL ELSE 0 END,
       state_check_time = orrery_now(), modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND status = ANY(:allowed::text[]);

-- name: number_units
-- The next units of a task without input, one for each job, numbered from 1 + offset; the last has what is left of the
-- events. How many there are is counted with them.
WITH so_far AS MATERIALIZED (
        SELECT n_files FROM task_datasets WHERE dataset_id = :dataset_id FOR NO KEY UPDATE),
     added AS (
        INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, max_failure, n_events, first_event)
        SELECT :dataset_id, :task_id, 'pseudo_lfn_' || to_char(n + :offset::bigint, 'FM00000000999999999'),
               'pseudo_input', 'ready', :max_attempt, :max_failure,
               CASE WHEN :n_events::bigint IS NULL THEN :events_per_row
                    ELSE least(:events_per_row::bigint, :n_events - (n - 1) * :events_per_row) END,
               :first_event::bigint + (n - 1) * coalesce(:events_per_row::bigint, 0)
          FROM so_far, generate_series(so_far.n_files + 1, least(:n_rows::bigint, so_far.n_files + :size::bigint)) AS n
         ORDER BY n
        RETURNING 1)
UPDATE task_datasets SET n_files = n_files + (SELECT count(*) FROM added) WHERE dataset_id = :dataset_id
RETURNING n_files;

-- name: note_numbered
-- How far the units of a task without input are numbered.
UPDATE dataset_readings SET stage = :stage WHERE dataset_id = :dataset_id;
