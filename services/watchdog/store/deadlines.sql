-- Tasks that are wanted by a time.

-- name: due_deadlines
-- Those of live tasks of which the end is to be worked out now, with their input. Indexes task_deadlines_due, tasks_pkey,
-- task_datasets_task.
SELECT w.task_id, w.due_at, w.older_at, w.older_n, w.newer_at, w.newer_n, t.status, t.prod_source_label,
       t.current_priority, t.creation_date, t.start_time, d.n_units, d.n_ended
  FROM task_deadlines w JOIN tasks t USING (task_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(n_files), 0)::bigint AS n_units,
              coalesce(sum(n_files_finished + n_files_failed), 0)::bigint AS n_ended
         FROM task_datasets
        WHERE task_id = w.task_id AND master_id IS NULL AND type IN ('input', 'pseudo_input', 'pp_input')
           AND status <> 'removed') d
 WHERE w.look_at <= orrery_now() AND t.status <> ALL(:ended::text[])
 ORDER BY w.look_at, w.task_id LIMIT :most::int;

-- name: note_ends
-- When tasks end, as it was worked out now.
UPDATE task_deadlines w
   SET looked_at = orrery_now(), look_at = orrery_now() + make_interval(secs => :again_s::float8), earliest_at = n.earliest_at,
       latest_at = n.latest_at, told = n.told, older_at = n.older_at, older_n = n.older_n, newer_at = n.newer_at,
       newer_n = n.newer_n
  FROM unnest(:task_ids::bigint[], :earliest::timestamptz[], :latest::timestamptz[], :told::text[],
              :older_at::timestamptz[], :older_n::bigint[], :newer_at::timestamptz[], :newer_n::bigint[])
       AS n (task_id, earliest_at, latest_at, told, older_at, older_n, newer_at, newer_n)
 WHERE w.task_id = n.task_id;

-- name: forget_deadlines
-- Of the next that are due, those whose task has ended, or is not there any more. A retry writes the time anew, and sets
-- the next look later: such a row stays. Indexes task_deadlines_due, tasks_pkey.
WITH due AS MATERIALIZED (
    SELECT task_id FROM task_deadlines WHERE look_at <= orrery_now()
     ORDER BY look_at, task_id LIMIT :most::int FOR UPDATE SKIP LOCKED)
DELETE FROM task_deadlines w USING due LEFT JOIN tasks t USING (task_id)
 WHERE w.task_id = due.task_id AND (t.status IS NULL OR t.status = ANY(:ended::text[]))
RETURNING w.task_id;
