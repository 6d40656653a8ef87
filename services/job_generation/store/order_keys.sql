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
