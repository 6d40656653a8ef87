-- name: note_progress
-- What pilots say of running jobs; what one says no more (a metric) stays as it was. By primary key.
INSERT INTO job_progress (job_id, progress)
SELECT said.job_id, said.progress FROM unnest(:job_ids::bigint[], :progress::jsonb[]) AS said (job_id, progress)
ON CONFLICT (job_id)
DO UPDATE SET progress = job_progress.progress || excluded.progress, reported_at = excluded.reported_at;

-- name: note_stdout
-- The end of what payloads print, in debug mode; the latest stays. By primary key.
INSERT INTO job_stdout (job_id, stdout)
SELECT said.job_id, said.stdout FROM unnest(:job_ids::bigint[], :texts::text[]) AS said (job_id, stdout)
ON CONFLICT (job_id) DO UPDATE SET stdout = excluded.stdout, reported_at = excluded.reported_at;

-- name: end_progress
-- Jobs have ended: their reports have all that was kept here. By primary key.
-- done for: PILOTS
DELETE FROM job_progress WHERE job_id = ANY(:job_ids::bigint[]);

-- name: forget_progress
-- What was kept of jobs that ended without a report.
DELETE FROM job_progress WHERE job_id IN (
    SELECT p.job_id FROM job_progress p
     WHERE p.reported_at < orrery_now() - make_interval(secs => :older_than_s)
       AND NOT EXISTS (SELECT FROM jobs j WHERE j.job_id = p.job_id AND j.status IN ('sent', 'starting', 'running'))
     LIMIT :size::int FOR UPDATE SKIP LOCKED);

-- name: forget_stdout
-- Output that nobody looks at any more. Index job_stdout_old.
DELETE FROM job_stdout WHERE job_id IN (
    SELECT job_id FROM job_stdout WHERE reported_at < orrery_now() - make_interval(secs => :older_than_s)
     ORDER BY reported_at LIMIT :size::int FOR UPDATE SKIP LOCKED);

-- name: stdout
-- The end of a payload's output, whose it is, and whether the job may carry secrets: without its specification nobody
-- knows. By primary key.
-- told by: DETAILS
SELECT o.stdout, o.reported_at, t.user_name AS owner, t.vo,
       s.job_id IS NULL OR s.secrets_of IS NOT NULL AS may_carry_secrets
  FROM job_stdout o
  LEFT JOIN jobs j ON j.job_id = o.job_id
  LEFT JOIN archived_jobs(ARRAY[:job_id::bigint]) a ON j.job_id IS NULL
  LEFT JOIN tasks t ON t.task_id = coalesce(j.task_id, a.task_id)
  LEFT JOIN job_specs s ON s.job_id = o.job_id
 WHERE o.job_id = :job_id;
