-- Invariants of shares and their use: I12. Every query returns task_id, entity, entity_id, sentence.

-- name: i12_share_outside_the_tree
-- Every share hangs below a share without a parent: the order of dispatch reaches all others from there.
WITH RECURSIVE reached AS (
    SELECT gshare FROM shares WHERE parent IS NULL
    UNION
    SELECT s.gshare FROM shares s JOIN reached r ON s.parent = r.gshare
)
SELECT NULL::bigint AS task_id, 'share' AS entity, NULL::bigint AS entity_id,
       format('share %s is below %s, but below no share without a parent: its jobs are due nothing', s.gshare, s.parent)
       AS sentence
  FROM shares s WHERE NOT EXISTS (SELECT FROM reached r WHERE r.gshare = s.gshare);

-- name: i12_usage_differs_at_rest
-- When no job moved for ten minutes and no event is under way, the level of use of a share is what runs of it.
WITH quiet AS (
    SELECT FROM (VALUES (1)) AS one (x)
     WHERE NOT EXISTS (SELECT FROM outbox) AND NOT EXISTS (SELECT FROM deferred_messages)
       AND NOT EXISTS (SELECT FROM jobs WHERE state_change_time > orrery_now() - interval '10 minutes'
                                          OR creation_time > orrery_now() - interval '10 minutes')
), counted AS (
    SELECT gshare, sum(core_count) AS cores FROM jobs WHERE status = 'running' GROUP BY gshare
), folded AS (
    SELECT gshare, sum(cores) AS cores
      FROM (SELECT gshare, cores FROM usage_levels UNION ALL SELECT gshare, cores FROM usage_buckets) used
     GROUP BY gshare
)
SELECT NULL::bigint AS task_id, 'share' AS entity, NULL::bigint AS entity_id,
       format('share %s uses %s cores by its buckets, but %s run', gshare, coalesce(f.cores, 0), coalesce(c.cores, 0))
       AS sentence
  FROM counted c FULL JOIN folded f USING (gshare)
 WHERE EXISTS (SELECT FROM quiet) AND coalesce(f.cores, 0) <> coalesce(c.cores, 0);

-- name: i12_job_and_its_retry_both_run
-- A job that is tried again is no longer with a pilot: both would count as used by its share.
SELECT h.task_id, 'job' AS entity, old.job_id AS entity_id,
       format('job %s is %s although job %s (%s) tries it again', old.job_id, old.status, new.job_id, new.status)
       AS sentence
  FROM job_retry_history h
  JOIN jobs old ON old.job_id = h.old_job_id AND old.status IN ('sent', 'starting', 'running')
  JOIN jobs new ON new.job_id = h.new_job_id
 WHERE h.task_id = ANY(:task_ids::bigint[]) AND h.relation_type = 'retry';
