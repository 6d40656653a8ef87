-- Invariants of pilots' reports: I6. Every query returns task_id, entity, entity_id, sentence.

-- name: i6_report_of_another_attempt
-- A final report is kept for the attempt that it reports.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s is attempt %s, but a report of attempt %s was believed (%s at %s)', j.job_id, j.attempt_number,
              r.attempt_number, r.state, r.reported_at) AS sentence
  FROM (SELECT task_id, job_id, attempt_number FROM jobs WHERE task_id = ANY(:task_ids::bigint[])
        UNION ALL
        SELECT task_id, job_id, attempt_number FROM archived_jobs_of_tasks(:task_ids::bigint[])) j
  JOIN job_reports r USING (job_id)
 WHERE r.attempt_number <> j.attempt_number;

-- name: i6_report_after_the_end
-- A job that had ended is not changed by the report of a pilot that no longer had it; its log is kept, as `late`.
SELECT j.task_id, 'job' AS entity, j.job_id AS entity_id,
       format('job %s ended at %s (%s), but a report of %s was believed', j.job_id, j.end_time, j.status, r.reported_at)
       AS sentence
  FROM (SELECT task_id, job_id, end_time, status FROM jobs WHERE task_id = ANY(:task_ids::bigint[])
        UNION ALL
        SELECT task_id, job_id, end_time, status FROM archived_jobs_of_tasks(:task_ids::bigint[])) j
  JOIN job_reports r USING (job_id)
 WHERE r.reported_at > j.end_time AND r.state <> 'late';
