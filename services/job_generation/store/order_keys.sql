-- name: use_task_queues
-- Task queues that jobs are made for and that were not used within a minute, in one order for everybody.
UPDATE task_queues q SET used_at = orrery_now()
  FROM (SELECT task_queue_id FROM task_queues
         WHERE identity = ANY(:identities::text[]) AND used_at < orrery_now() - interval '1 minute'
         ORDER BY identity FOR NO KEY UPDATE) stale
 WHERE q.task_queue_id = stale.task_queue_id;

-- name: add_task_queues
-- Task queues that nobody had. Those that are there are not locked: DO UPDATE would lock them even when it changes none.
INSERT INTO task_queues (identity, vo, user_name, user_group, cpu_segment_s, sites, banned_sites, platforms,
                                  tags, job_types)
SELECT given.identity, given.vo, given.user_name, given.user_group, given.cpu_segment_s,
       ARRAY(SELECT jsonb_array_elements_text(given.sets -> 'sites')),
       ARRAY(SELECT jsonb_array_elements_text(given.sets -> 'banned_sites')),
       ARRAY(SELECT jsonb_array_elements_text(given.sets -> 'platforms')),
       ARRAY(SELECT jsonb_array_elements_text(given.sets -> 'tags')),
       ARRAY(SELECT jsonb_array_elements_text(given.sets -> 'job_types'))
  FROM unnest(:identities::text[], :vos::text[], :user_names::text[], :user_groups::text[], :cpu_segments_s::int[],
              :sets::jsonb[])
       AS given (identity, vo, user_name, user_group, cpu_segment_s, sets)
 ORDER BY given.identity
ON CONFLICT (identity) DO NOTHING;

-- name: add_order_keys
-- User priorities that nobody had in these task queues.
INSERT INTO order_keys (task_queue_id, user_priority)
SELECT q.task_queue_id, given.user_priority
  FROM unnest(:identities::text[], :user_priorities::int[]) AS given (identity, user_priority)
  JOIN task_queues q USING (identity)
 ORDER BY q.task_queue_id, given.user_priority
ON CONFLICT DO NOTHING;

-- name: order_keys_of
-- The ids of these order keys.
SELECT k.order_key_id, q.identity, k.user_priority
  FROM unnest(:identities::text[], :user_priorities::int[]) AS given (identity, user_priority)
  JOIN task_queues q USING (identity)
  JOIN order_keys k ON k.task_queue_id = q.task_queue_id AND k.user_priority = given.user_priority;

-- name: note_task
-- Its waiting jobs get their keys again.
INSERT INTO order_key_changes (task_id) VALUES (:task_id) ON CONFLICT (task_id) DO UPDATE SET changed_at = orrery_now();

-- name: next_task
-- One of those whose share changed.
SELECT task_id FROM order_key_changes ORDER BY changed_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: forget_task
-- Its jobs have their keys.
DELETE FROM order_key_changes WHERE task_id = :task_id;

-- name: known_vos
-- The VOs that ever had jobs. A small table.
SELECT DISTINCT vo FROM requirement_shapes ORDER BY vo;

-- name: sweeps
-- What the jobs of each VO have, or are being given.
SELECT vo, wanted FROM order_key_sweeps;

-- name: begin_sweep
-- The configuration of a VO has changed: from the first task on.
INSERT INTO order_key_sweeps AS known (vo, wanted, passes_left) VALUES (:vo, :wanted, :passes)
ON CONFLICT (vo) DO UPDATE
SET wanted = excluded.wanted, passes_left = excluded.passes_left, after_task_id = 0,
    due_at = excluded.due_at, changed_at = excluded.changed_at;

-- name: due_sweep
-- One that has a pass to make. A row for each VO.
SELECT vo, passes_left, after_task_id FROM order_key_sweeps
 WHERE passes_left > 0 AND due_at <= orrery_now() ORDER BY changed_at LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: go_on
-- How far a pass came.
UPDATE order_key_sweeps SET after_task_id = :after_task_id, changed_at = orrery_now() WHERE vo = :vo;

-- name: end_pass
-- The next pass begins later.
UPDATE order_key_sweeps SET after_task_id = 0, passes_left = passes_left - 1, due_at = :due_at WHERE vo = :vo;

-- name: tasks_after
-- The next tasks by id, whether their jobs may wait. Primary key.
SELECT task_id, coalesce(vo, '') AS vo, status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted') AS is_waiting
  FROM tasks WHERE task_id > :after_task_id ORDER BY task_id LIMIT :size::int;

-- name: waiting_groups
-- Waiting jobs of tasks by what their keys depend on. Index jobs_task.
SELECT t.task_id, t.vo, t.user_name, coalesce(t.gshare, 'Undefined') AS gshare, t.working_group, t.architecture,
       t.processing_type, coalesce(p.task_parameters, '{}'::jsonb) AS parameters, t.split_rule,
       j.shape_id, s.walltime_s, j.job_type
  FROM (SELECT DISTINCT jobs.task_id, jobs.shape_id, jobs.job_type FROM jobs
         WHERE jobs.task_id = ANY(:task_ids::bigint[]) AND jobs.status = ANY(:statuses::text[])) j
  JOIN tasks t USING (task_id) JOIN requirement_shapes s USING (shape_id)
  LEFT JOIN task_parameters p ON p.task_id = t.task_id
 ORDER BY t.task_id, j.shape_id, j.job_type;

-- name: plan_by_index
-- Most rows of the table may belong to one task: only the index by task and status leads straight to those that wait.
SELECT set_config('enable_seqscan', 'off', true) || set_config('enable_bitmapscan', 'off', true);

-- name: rekey
-- Nobody is waited for; a job that a pilot takes at this moment keeps its key. Index jobs_task.
WITH taken AS MATERIALIZED (
    SELECT job_id, status, queue, gshare, shape_id, current_priority AS priority, order_key_id FROM jobs
     WHERE task_id = :task_id AND status = ANY(:statuses::text[]) AND shape_id = :shape_id AND job_type = :job_type
       AND order_key_id <> :order_key_id
     LIMIT :size::int FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE jobs SET order_key_id = :order_key_id FROM taken
     WHERE jobs.job_id = taken.job_id AND jobs.status = ANY(:statuses::text[])
    RETURNING jobs.job_id
)
SELECT taken.* FROM taken JOIN changed USING (job_id) ORDER BY job_id;
