-- name: work_queues
-- All of them, in the order in which tasks are mapped, with the live tasks of each.
-- told by: STATES
SELECT w.queue_id, w.queue_name AS name, w.queue_type AS label, w.vo, w.queue_share AS share, w.queue_order AS "order",
       w.criteria, w.variables, w.partition_id, w.stretchable, w.throttled, w.status, w.queue_function AS function
  FROM work_queues w ORDER BY w.queue_order NULLS LAST, w.queue_id;

-- name: tasks_of_work_queues
-- Live tasks by work queue.
-- told by: STATES
SELECT work_queue_id, count(*) AS n_tasks FROM tasks
 WHERE work_queue_id IS NOT NULL AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
 GROUP BY work_queue_id;

-- name: put_work_queues
-- Each in the place of the one with its id; orders are unique, so those of before are forgotten first.
-- done for: OPERATORS
INSERT INTO work_queues (queue_id, queue_name, queue_type, vo, queue_share, queue_order, criteria, variables,
                         partition_id, stretchable, throttled, status, queue_function)
SELECT * FROM unnest(:queue_ids::int[], :names::text[], :labels::text[], :vos::text[], :shares::float8[],
                     :orders::int[], :criteria::text[], :variables::text[], :partition_ids::int[],
                     :stretchables::boolean[], :throttleds::boolean[], :statuses::text[], :functions::text[])
ON CONFLICT (queue_id) DO UPDATE
SET queue_name = excluded.queue_name, queue_type = excluded.queue_type, vo = excluded.vo,
    queue_share = excluded.queue_share, queue_order = excluded.queue_order, criteria = excluded.criteria,
    variables = excluded.variables, partition_id = excluded.partition_id, stretchable = excluded.stretchable,
    throttled = excluded.throttled, status = excluded.status, queue_function = excluded.queue_function;

-- name: forget_orders
-- Before others take their places.
-- done for: OPERATORS
UPDATE work_queues SET queue_order = NULL;

-- name: forget_work_queues
-- Those that are left out: gone where no task has them, else inactive.
-- done for: OPERATORS
DELETE FROM work_queues w
 WHERE w.queue_id <> ALL(:queue_ids::int[]) AND NOT EXISTS (SELECT FROM tasks t WHERE t.work_queue_id = w.queue_id);

-- name: retire_work_queues
-- What tasks have had stays known, and takes no more.
-- done for: OPERATORS
UPDATE work_queues SET status = 'inactive', queue_order = NULL WHERE queue_id <> ALL(:queue_ids::int[]);

-- name: matching_tasks
-- Live tasks of a label and VO; the condition of criteria takes the place of the last line.
SELECT count(*) FROM tasks
 WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND prod_source_label = :label AND vo = :vo
   AND true;
