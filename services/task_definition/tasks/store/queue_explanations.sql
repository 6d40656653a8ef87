-- What a queue is asked about: its state, its jobs, what was decided about it, its pilots.

-- name: queue_facts
-- The cordon of a queue, its pilots and slots, and what its site says of itself.
-- told by: STATES
SELECT c.reason AS cordon_reason, c.set_by AS cordoned_by, c.set_at AS cordoned_at, a.last_pilot_at, a.last_job_start_at,
       a.running_workers, a.submitted_workers, v.n_slots, v.slots_of_type, s.max_jobs, s.current_jobs, s.current_matches,
       s.requirements
  FROM (SELECT :queue::text AS queue, :site::text AS site) wanted
  LEFT JOIN queue_cordons c USING (queue) LEFT JOIN queue_activity a USING (queue)
  LEFT JOIN valid_queue_slots v USING (queue)
  LEFT JOIN site_adverts s ON s.site = wanted.site AND s.expires_at > orrery_now();

-- name: jobs_of_queue
-- Its live jobs by VO, share, resource type and state, as the statistics count them.
-- told by: STATES
SELECT vo, gshare, resource_type, status, sum(n_jobs)::bigint AS n_jobs FROM queue_statistics
 WHERE queue = :queue AND status NOT IN ('finished', 'failed', 'closed', 'cancelled')
 GROUP BY vo, gshare, resource_type, status HAVING sum(n_jobs) > 0 ORDER BY vo, gshare, resource_type, status;

-- name: waiting_of_queue
-- Its jobs that wait for a pilot, by task, up to so many; of tasks that the reader may not read the number alone.
-- Index jobs_lane.
-- told by: DETAILS
SELECT CASE WHEN may.may_read THEN w.task_id END AS task_id, max(may.task_name) AS task_name, sum(w.n_jobs)::bigint
       AS n_jobs, count(*) AS n_tasks
  FROM (SELECT task_id, count(*) AS n_jobs
          FROM (SELECT task_id FROM jobs WHERE queue = :queue AND status = 'activated' LIMIT :at_most::int) j
         GROUP BY task_id) w
 CROSS JOIN LATERAL (
    SELECT allowed AS may_read, CASE WHEN allowed THEN t.task_name END AS task_name FROM tasks t,
           orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[]) AS allowed
     WHERE t.task_id = w.task_id) may
 GROUP BY 1 ORDER BY sum(w.n_jobs) DESC, 1;

-- name: decisions_about_queue
-- What the latest decisions of the last hour that looked at these queues found, the latest first: the check that left it out (NULL: none)
-- with the numbers compared, and whether it was chosen. A decision knows a queue alone or with a resource type behind its
-- name. Index brokerage_decisions_old.
-- told by: DETAILS
WITH asked AS (
    SELECT queue AS name FROM unnest(:queues::text[]) queue
    UNION ALL SELECT queue || '/' || resource_name FROM unnest(:queues::text[]) queue, resource_types),
    recent AS (
    SELECT decision_id, task_id, decided_at, chosen, names, codes, found, wanted, checks FROM brokerage_decisions
     WHERE decided_at > orrery_now() - interval '1 hour' AND kind <> 'task'
       AND names && ARRAY(SELECT name FROM asked)
     ORDER BY decided_at DESC LIMIT :at_most::int)
SELECT r.decided_at, r.task_id, t.task_name, r.codes[p.place] AS code, r.found[p.place] AS found,
       r.wanted[p.place] AS wanted, r.checks -> r.codes[p.place]::text AS check, a.name = ANY(r.chosen) AS chosen,
       orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[]) AS may_read
  FROM recent r CROSS JOIN asked a
 CROSS JOIN LATERAL (SELECT array_position(r.names, a.name) AS place) p
  LEFT JOIN tasks t USING (task_id)
 WHERE p.place IS NOT NULL
 ORDER BY r.decided_at DESC, r.decision_id DESC;

-- name: without_a_job_at_queues
-- Pilots that asked there within the last hour and got nothing, by class, the latest first.
-- told by: STATES
SELECT why, sum(n_pilots)::bigint AS n_pilots, max(last_at) AS last_at FROM pilots_without_a_job
 WHERE queue = ANY(:queues::text[]) AND last_at > orrery_now() - interval '1 hour'
 GROUP BY why ORDER BY max(last_at) DESC, why;

-- name: day_of_queues
-- Jobs that began and ended there in each hour of the last day in which some did. Index queue_outcomes_queue.
-- told by: STATES
SELECT hour, sum(n_started)::bigint AS n_started, sum(n_finished)::bigint AS n_finished,
       sum(n_failed)::bigint AS n_failed, sum(n_closed + n_cancelled)::bigint AS n_stopped
  FROM queue_outcomes WHERE queue = ANY(:queues::text[]) AND hour > orrery_now() - interval '24 hours'
 GROUP BY hour ORDER BY hour;

-- name: reasons_at_queue
-- What the last of them were told, by class: it may name whose work waits.
-- told by: OPERATORS
SELECT why, reason FROM pilots_without_a_job WHERE queue = :queue;
