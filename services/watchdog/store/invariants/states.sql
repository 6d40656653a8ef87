-- Invariants of states and their log: I4, I5, I7. Every query returns task_id, entity, entity_id, sentence.

-- name: i4_final_job_changed
-- The final state of a job never changes.
SELECT l.task_id, 'job' AS entity, l.job_id AS entity_id,
       format('job %s was %s and became %s at %s (%s: %s)', l.job_id, l.from_status, l.to_status, l.at, l.actor, l.reason)
       AS sentence
  FROM transitions_of_jobs(:task_ids::bigint[]) l
 WHERE l.from_status IN ('finished', 'failed', 'closed', 'cancelled');

-- name: i4_job_in_two_homes
-- A job is either live or in the archive.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s is live (%s) and archived (%s)', j.job_id, j.status, a.status) AS sentence
  FROM jobs j JOIN archived_jobs(ARRAY(SELECT job_id FROM jobs WHERE task_id = ANY(:task_ids::bigint[]))) a
       ON a.job_id = j.job_id
 WHERE j.task_id = ANY(:task_ids::bigint[]);

-- name: i4_reopened_without_command
-- A final task, dataset or file is opened again only by a command on its task that somebody is recorded to have given;
-- but input that was done is read again where the catalogue changed it.
SELECT l.task_id, l.entity, coalesce(l.entity_id, l.entity_ids[1]) AS entity_id,
       format('%s %s went from %s to %s at %s without a recorded command (%s: %s)', l.entity,
              coalesce(l.entity_id, l.entity_ids[1]), l.from_status, l.to_status, l.at, l.actor, l.reason) AS sentence
  FROM transition_log l
 WHERE l.task_id = ANY(:task_ids::bigint[])
   AND (l.entity = 'task' AND l.from_status IN ('done', 'finished', 'failed', 'broken', 'aborted')
        OR l.entity = 'dataset' AND l.from_status IN ('done', 'finished', 'failed', 'broken', 'removed')
           AND (l.from_status, l.to_status) <> ('done', 'toupdate')
        OR l.entity = 'file' AND l.from_status IN ('finished', 'failed', 'broken', 'cancelled', 'nooutput'))
   AND NOT EXISTS (SELECT FROM audit_log a
                    WHERE a.target IN (l.task_id::text, 'task ' || l.task_id, 'task:' || l.task_id) AND a.at <= l.at);

-- name: i5_transition_not_in_graph
-- Only the published transitions occur; the order of a task (its priority and share) is no state.
SELECT l.task_id, l.entity, l.entity_id,
       format('%s %s went from %s to %s at %s, which the graph does not have (%s: %s)', l.entity, l.entity_id,
              coalesce(l.from_status, '(inserted)'), l.to_status, l.at, l.actor, l.reason) AS sentence
  FROM (SELECT task_id, entity, coalesce(entity_id, entity_ids[1]) AS entity_id, at, from_status, to_status, actor,
               reason
          FROM transition_log WHERE task_id = ANY(:task_ids::bigint[]) AND entity NOT IN ('job', 'order')
        UNION ALL
        SELECT task_id, 'job', job_id, at, from_status, to_status, actor, reason
          FROM transitions_of_jobs(:task_ids::bigint[])) l
  LEFT JOIN allowed_transitions a
    ON a.entity = l.entity AND a.from_status = coalesce(l.from_status, '') AND a.to_status = l.to_status
 WHERE a.entity IS NULL;

-- name: i5_transition_without_reason
-- Every transition has an actor and a reason.
SELECT l.task_id, l.entity, l.entity_id,
       format('%s %s went from %s to %s at %s with actor %s and reason %s', l.entity, l.entity_id,
              coalesce(l.from_status, '(inserted)'), l.to_status, l.at, quote_literal(l.actor), quote_literal(l.reason))
       AS sentence
  FROM (SELECT task_id, entity, coalesce(entity_id, entity_ids[1]) AS entity_id, at, from_status, to_status, actor,
               reason
          FROM transition_log WHERE task_id = ANY(:task_ids::bigint[]) AND entity <> 'job'
        UNION ALL
        SELECT task_id, 'job', job_id, at, from_status, to_status, actor, reason
          FROM transitions_of_jobs(:task_ids::bigint[])) l
 WHERE l.actor = '' OR l.reason IN ('', 'unstated');

-- name: i5_task_log_has_a_gap
-- A task's log leads to its state: it entered each state as often as it left it, but for the present one.
WITH steps AS (
    SELECT l.task_id, s.status, s.step
      FROM transition_log l
      CROSS JOIN LATERAL (VALUES (l.to_status, 1), (l.from_status, -1)) AS s (status, step)
     WHERE l.task_id = ANY(:task_ids::bigint[]) AND l.entity = 'task' AND s.status IS NOT NULL
    UNION ALL
    SELECT t.task_id, t.status, -1 FROM tasks t WHERE t.task_id = ANY(:task_ids::bigint[])
)
SELECT s.task_id, 'task' AS entity, s.task_id AS entity_id,
       format('task %s: its log does not lead to its state; %s is off by %s', s.task_id, s.status, sum(s.step))
       AS sentence
  FROM steps s
 WHERE EXISTS (SELECT FROM transition_log l
                WHERE l.task_id = s.task_id AND l.entity = 'task' AND l.from_status IS NULL)
 GROUP BY s.task_id, s.status HAVING sum(s.step) <> 0;

-- name: i5_job_log_has_a_gap
-- A live job's log leads to its state; its insertion (pending, defined or waiting) is its creation time.
WITH steps AS (
    SELECT l.task_id, l.job_id, s.status, s.step
      FROM transitions_of_jobs(:task_ids::bigint[]) l
      CROSS JOIN LATERAL (VALUES (l.to_status, 1), (l.from_status, -1)) AS s (status, step)
     WHERE s.status IS NOT NULL
    UNION ALL
    SELECT j.task_id, j.job_id, j.status, -1 FROM jobs j WHERE j.task_id = ANY(:task_ids::bigint[])
)
SELECT s.task_id, 'job' AS entity, s.job_id AS entity_id,
       format('job %s: its log does not lead to its state; %s is off by %s', s.job_id, s.status, sum(s.step))
       AS sentence
  FROM steps s
 WHERE s.status NOT IN ('pending', 'defined', 'waiting') AND EXISTS (SELECT FROM jobs j WHERE j.job_id = s.job_id)
 GROUP BY s.task_id, s.job_id, s.status HAVING sum(s.step) <> 0;

-- name: i5_file_log_has_a_gap
-- A file's batches in the log lead to its state, where the log has its task from the beginning.
WITH steps AS (
    SELECT l.task_id, i.file_id, s.status, s.step
      FROM transition_log l
      CROSS JOIN LATERAL unnest(coalesce(l.entity_ids, ARRAY[l.entity_id])) AS i (file_id)
      CROSS JOIN LATERAL (VALUES (l.to_status, 1), (l.from_status, -1)) AS s (status, step)
     WHERE l.task_id = ANY(:task_ids::bigint[]) AND l.entity = 'file' AND s.status IS NOT NULL
    UNION ALL
    SELECT f.task_id, f.file_id, f.status, -1 FROM task_datasets d JOIN task_files f USING (dataset_id)
     WHERE d.task_id = ANY(:task_ids::bigint[])
)
SELECT s.task_id, 'file' AS entity, s.file_id AS entity_id,
       format('file %s: its log does not lead to its state; %s is off by %s', s.file_id, s.status, sum(s.step))
       AS sentence
  FROM steps s
 WHERE s.status IN ('picked', 'finished', 'failed', 'merging', 'prepared', 'cancelled')
   AND EXISTS (SELECT FROM transition_log l
                WHERE l.task_id = s.task_id AND l.entity = 'task' AND l.from_status IS NULL)
 GROUP BY s.task_id, s.file_id, s.status HAVING sum(s.step) <> 0;

-- name: i7_job_given_twice
-- A job row goes to one pilot at most.
SELECT l.task_id, 'job' AS entity, l.job_id AS entity_id,
       format('job %s was given to pilots %s times', l.job_id, count(*)) AS sentence
  FROM transitions_of_jobs(:task_ids::bigint[]) l WHERE l.to_status = 'sent'
 GROUP BY l.task_id, l.job_id HAVING count(*) > 1;

-- name: i7_job_claimed_twice
-- A job answers one acquire request.
SELECT j.task_id, 'job' AS entity, c.job_id AS entity_id,
       format('job %s was the answer to %s different requests', c.job_id, count(*)) AS sentence
  FROM jobs j JOIN job_claims c ON c.job_id = j.job_id
 WHERE j.task_id = ANY(:task_ids::bigint[])
 GROUP BY j.task_id, c.job_id HAVING count(*) > 1;
