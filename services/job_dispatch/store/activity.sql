-- name: note_pilots
-- Pilots of these queues asked just now; queues in one order for everybody.
-- done for: PILOTS
INSERT INTO queue_activity (queue, last_pilot_at)
SELECT seen.queue, orrery_now() FROM unnest(:queues::text[]) AS seen (queue) ORDER BY seen.queue
ON CONFLICT (queue) DO UPDATE SET last_pilot_at = excluded.last_pilot_at;

-- name: note_heard
-- Calls of pilots of these VOs since the last time, in this minute; VOs in one order for everybody.
-- done for: PILOTS
INSERT INTO heard_minutes AS known (vo, minute, n_heard)
SELECT w.vo, date_trunc('minute', orrery_now()), w.n_calls FROM unnest(:vos::text[], :counts::int[]) AS w (vo, n_calls)
 ORDER BY w.vo
ON CONFLICT (vo, minute) DO UPDATE SET n_heard = known.n_heard + excluded.n_heard WHERE excluded.n_heard > 0;

-- name: note_pilots_without_a_job
-- Pilots of these queues got no job since the last time; queues in one order for everybody.
-- done for: PILOTS
INSERT INTO pilots_without_a_job AS known (queue, why, n_pilots, reason)
SELECT * FROM unnest(:queues::text[], :whys::text[], :counts::bigint[], :reasons::text[])
ON CONFLICT (queue, why)
DO UPDATE SET n_pilots = known.n_pilots + excluded.n_pilots, reason = excluded.reason, last_at = excluded.last_at;

-- name: reporters_of_workers
-- Workers of these numbers, of every VO: whose they are (nobody's until a pilot reports one), and at which queue. The
-- beginning of the key of workers.
SELECT w.harvester_id, w.worker_id, w.vo, w.queue, w.subject, w.status
  FROM unnest(:harvester_ids::text[], :worker_ids::bigint[]) AS told (harvester_id, worker_id)
  JOIN workers w USING (harvester_id, worker_id)
 ORDER BY w.vo;

-- name: vos_of_queues
-- The VOs that records of queues name. The key of queues.
SELECT queue, data->'vo_name' AS vo_name FROM queues_in_force WHERE queue = ANY(:queues::text[]);

-- name: release_workers
-- Workers of several VOs that pilots of one begin: each is written anew, as that VO's.
-- done for: NAMED
DELETE FROM workers w USING unnest(:harvester_ids::text[], :worker_ids::bigint[]) AS begun (harvester_id, worker_id)
 WHERE w.harvester_id = begun.harvester_id AND w.worker_id = begun.worker_id AND w.vo = ''
   AND w.subject IS NULL AND w.status <> 'finished';

-- name: note_workers
-- The latest state of batch jobs; one that finished stays so, and one that began is not submitted any more.
-- done for: NAMED
INSERT INTO workers (harvester_id, worker_id, queue, status, subject, n_cores, vo)
SELECT * FROM unnest(:harvester_ids::text[], :worker_ids::bigint[], :queues::text[], :statuses::text[],
                     :subjects::text[], :n_cores::int[], :vos::text[])
ON CONFLICT (harvester_id, worker_id, vo)
DO UPDATE SET queue = excluded.queue, status = excluded.status, subject = excluded.subject, n_cores = excluded.n_cores,
              updated_at = orrery_now()
 WHERE workers.status <> 'finished' AND (workers.subject IS NULL OR workers.subject = excluded.subject)
   AND (excluded.status <> 'submitted' OR workers.status = 'submitted');
