-- name: note_pilots
-- Pilots of these queues asked just now; queues in one order for everybody.
INSERT INTO queue_activity (queue, last_pilot_at)
SELECT seen.queue, orrery_now() FROM unnest(:queues::text[]) AS seen (queue) ORDER BY seen.queue
ON CONFLICT (queue) DO UPDATE SET last_pilot_at = excluded.last_pilot_at;

-- name: note_pilots_without_a_job
-- Pilots of these queues got no job since the last time; queues in one order for everybody.
INSERT INTO pilots_without_a_job AS known (queue, why, n_pilots, reason)
SELECT * FROM unnest(:queues::text[], :whys::text[], :counts::bigint[], :reasons::text[])
ON CONFLICT (queue, why)
DO UPDATE SET n_pilots = known.n_pilots + excluded.n_pilots, reason = excluded.reason, last_at = excluded.last_at;

-- name: reporters_of_workers
-- Whose these workers are (nobody's until a pilot reports one), of which VO, and at which queue.
SELECT w.harvester_id, w.worker_id, w.queue, w.subject, w.vo
  FROM unnest(:harvester_ids::text[], :worker_ids::bigint[]) AS told (harvester_id, worker_id)
  JOIN workers w USING (harvester_id, worker_id);

-- name: vos_of_queues
-- The VOs that records of queues name. The key of queues.
SELECT queue, data->'vo_name' AS vo_name FROM queues_in_force WHERE queue = ANY(:queues::text[]);

-- name: note_workers
-- The latest state of batch jobs; one that finished stays so, and one that began is not submitted any more.
INSERT INTO workers (harvester_id, worker_id, queue, status, subject, n_cores, vo)
SELECT * FROM unnest(:harvester_ids::text[], :worker_ids::bigint[], :queues::text[], :statuses::text[],
                     :subjects::text[], :n_cores::int[], :vos::text[])
ON CONFLICT (harvester_id, worker_id)
DO UPDATE SET queue = excluded.queue, status = excluded.status, subject = excluded.subject, n_cores = excluded.n_cores,
              vo = coalesce(nullif(workers.vo, ''), excluded.vo), updated_at = orrery_now()
 WHERE workers.status <> 'finished' AND (workers.subject IS NULL OR workers.subject = excluded.subject)
   AND (excluded.status <> 'submitted' OR workers.status = 'submitted');
