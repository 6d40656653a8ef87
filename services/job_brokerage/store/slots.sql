-- name: set_slots
-- A number of slots of a queue and resource type until a time.
-- done for: NAMED, OPERATORS
INSERT INTO queue_slots (queue, resource_type, n_slots, valid_until)
VALUES (:queue, :resource_type, :n_slots, :valid_until)
ON CONFLICT (queue, resource_type) DO UPDATE SET n_slots = excluded.n_slots, valid_until = excluded.valid_until;

-- name: unset_slots
-- No number of slots of a queue and resource type any more.
-- done for: NAMED, OPERATORS
DELETE FROM queue_slots WHERE queue = :queue AND resource_type = :resource_type;

-- name: forget_slots
-- Numbers whose time is over.
DELETE FROM queue_slots WHERE valid_until <= orrery_now();

-- name: add_up_slots
-- Their sum, of queues where it is another than before.
-- done for: NAMED, OPERATORS
INSERT INTO queue_activity AS known (queue, n_slots)
SELECT queue, slots.n_slots_in_all
FROM valid_queue_slots slots FULL JOIN (SELECT queue, n_slots FROM queue_activity WHERE n_slots IS NOT NULL) a USING (queue)
WHERE slots.n_slots_in_all IS DISTINCT FROM a.n_slots
ORDER BY queue
ON CONFLICT (queue) DO UPDATE SET n_slots = excluded.n_slots
RETURNING queue;

-- name: record_slots
-- Who set slots, for people.
-- done for: NAMED, OPERATORS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, 'set slots', :target, 'accepted', :details);

-- name: vos_of_queue
-- The VOs that a queue's record names: access NAMED. The key of queues.
SELECT data->'vo_name' FROM queues_in_force WHERE queue = :queue;
