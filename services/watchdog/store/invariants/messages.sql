-- Invariants of messages and of what PostgreSQL alone must hold: I10, I13.
-- Every query returns task_id, entity, entity_id, sentence.

-- name: i10_archived_before_counted
-- A job leaves for the archive only after its end was counted.
SELECT a.task_id, 'job' AS entity, a.job_id AS entity_id,
       format('job %s was archived as %s, but its end was never counted', a.job_id, a.status) AS sentence
  FROM archived_jobs_of_tasks(:task_ids::bigint[]) a
 WHERE (a.results_applied_at IS NULL OR a.status NOT IN ('finished', 'failed', 'closed', 'cancelled'));

-- name: i10_counted_before_final
-- The end of a job is counted only when it ended.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s is %s, but its end was counted at %s', j.job_id, j.status, j.results_applied_at) AS sentence
  FROM jobs j
 WHERE j.task_id = ANY(:task_ids::bigint[]) AND j.results_applied_at IS NOT NULL
   AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled');

-- name: i10_end_never_counted
-- The end of a job is counted soon after it; if not, its event was lost and the sweep does not work.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s is %s since %s and was not counted', j.job_id, j.status, j.state_change_time) AS sentence
  FROM jobs j
 WHERE j.task_id = ANY(:task_ids::bigint[]) AND j.results_applied_at IS NULL
   AND j.status IN ('finished', 'failed', 'closed', 'cancelled')
   AND j.state_change_time < orrery_now() - interval '30 minutes';

-- name: i10_end_never_settled
-- What follows of ends that were counted is settled soon after; if not, its event was lost and nobody tells it again.
SELECT d.task_id, 'task' AS entity, d.task_id AS entity_id,
       format('ends of jobs of task %s were counted at %s and what follows was not settled', d.task_id, min(d.counted_at))
       AS sentence
  FROM dirty_tasks d
 WHERE d.task_id = ANY(:task_ids::bigint[]) AND d.counted_at < orrery_now() - interval '30 minutes'
 GROUP BY d.task_id;

-- name: i10_event_not_published
-- A committed event reaches the bus.
SELECT NULL::bigint AS task_id, 'event' AS entity, o.event_id AS entity_id,
       format('event %s (%s of %s) waits in the outbox since %s', o.event_id, o.routing_key, o.producer, o.created_at)
       AS sentence
  FROM outbox o
 WHERE o.created_at < orrery_now() - interval '5 minutes';

-- name: i10_event_applied_twice
-- A consumer applies an event once.
SELECT NULL::bigint AS task_id, 'event' AS entity, i.event_id AS entity_id,
       format('event %s was applied %s times by %s', i.event_id, count(*), i.consumer) AS sentence
  FROM inbox i
 GROUP BY i.consumer, i.event_id HAVING count(*) > 1;

-- name: i10_deferred_event_overdue
-- A deferred event is tried again when its time has come.
SELECT NULL::bigint AS task_id, 'event' AS entity, d.event_id AS entity_id,
       format('event %s (%s) was to be tried again by %s at %s: %s', d.event_id, d.routing_key, d.consumer, d.retry_at,
              d.reason) AS sentence
  FROM deferred_messages d
 WHERE d.retry_at < orrery_now() - interval '10 minutes';

-- name: i13_task_without_next_step
-- What a working task does next can be found in PostgreSQL alone: a time at which it, or its job sets, are looked at, a
-- chunk, a job, an uncounted end or a counted one that was not settled, open input, or input that is being read or opened again. The end of a reading sets a
-- time, whatever was found.
SELECT t.task_id, 'task' AS entity, t.task_id AS entity_id,
       format('task %s is %s, but has no chunk, no job, no input left and was not prepared', t.task_id, t.status)
       AS sentence
  FROM tasks t
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.status IN ('scouting', 'scouted', 'running')
   AND t.retry_at IS NULL AND t.co_jumbo_retry_at IS NULL
   AND NOT EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered')
   AND NOT EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.results_applied_at IS NULL)
   AND NOT EXISTS (SELECT FROM dirty_tasks d WHERE d.task_id = t.task_id)
   AND NOT EXISTS (SELECT FROM input_readings r WHERE r.task_id = t.task_id)
   AND NOT EXISTS (SELECT FROM reopenings r WHERE r.task_id = t.task_id)
   AND NOT EXISTS (SELECT FROM task_datasets d JOIN task_files f USING (dataset_id)
                    WHERE d.task_id = t.task_id AND f.status IN ('ready', 'pending', 'staging', 'missing', 'picked')
                      AND f.type IN ('input', 'pseudo_input', 'pp_input', 'trn_output', 'trn_log'));

-- name: i13_statistics_differ_at_rest
-- When no job moves and no event is under way, the statistics of the queues equal the jobs.
WITH quiet AS (
    SELECT FROM (VALUES (1)) AS one (x)
     WHERE NOT EXISTS (SELECT FROM outbox) AND NOT EXISTS (SELECT FROM deferred_messages)
       AND NOT EXISTS (SELECT FROM jobs WHERE state_change_time > orrery_now() - interval '1 minute'
                                          OR creation_time > orrery_now() - interval '1 minute')
), counted AS (
    SELECT j.queue, j.resource_type, j.gshare, j.user_name, j.status, coalesce(t.vo, '') AS vo, count(*) AS n_jobs
      FROM jobs j LEFT JOIN tasks t USING (task_id)
     WHERE j.status NOT IN ('finished', 'failed', 'closed', 'cancelled') AND j.queue IS NOT NULL
     GROUP BY j.queue, j.resource_type, j.gshare, j.user_name, j.status, coalesce(t.vo, '')
), folded AS (
    SELECT queue, resource_type, gshare, user_name, status, vo, n_jobs FROM queue_statistics
     WHERE status NOT IN ('finished', 'failed', 'closed', 'cancelled') AND n_jobs <> 0
)
SELECT NULL::bigint AS task_id, 'queue' AS entity, NULL::bigint AS entity_id,
       format('statistics of %s/%s, share %s, user %s of vo %s: %s jobs %s, but there are %s', queue, resource_type, gshare,
              user_name, coalesce(nullif(vo, ''), 'none'), coalesce(f.n_jobs, 0), status, coalesce(c.n_jobs, 0)) AS sentence
  FROM counted c FULL JOIN folded f USING (queue, resource_type, gshare, user_name, status, vo)
 WHERE EXISTS (SELECT FROM quiet) AND coalesce(f.n_jobs, 0) <> coalesce(c.n_jobs, 0);
