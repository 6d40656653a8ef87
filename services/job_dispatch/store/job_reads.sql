-- name: job_states
-- Status, attempt and command of jobs, finished ones from the archive, with the owner and VO of their tasks.
-- told by: DETAILS
SELECT wanted.job_id, coalesce(j.status, a.status) AS status, coalesce(j.attempt_number, a.attempt_number) AS
       attempt_number, j.command, coalesce(j.user_name, a.user_name) AS user_name,
       t.user_name AS owner, t.vo
  FROM unnest(:job_ids::bigint[]) WITH ORDINALITY AS wanted (job_id, place)
  LEFT JOIN jobs j ON j.job_id = wanted.job_id
  LEFT JOIN archived_jobs(ARRAY(
    SELECT ended FROM unnest(:job_ids::bigint[]) AS ended
     WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.job_id = ended))) a ON a.job_id = wanted.job_id AND j.job_id IS NULL
  LEFT JOIN LATERAL (
    SELECT user_name, vo FROM tasks WHERE task_id = coalesce(j.task_id, a.task_id)) t ON true
 ORDER BY wanted.place;

-- name: list_jobs
-- The newest jobs under filters that may be NULL, those of the archive included. A filter on what the state view hides
-- finds only jobs of tasks that the reader may have in full (told_only): of whoever produces nothing those of their own
-- tasks (owner), by jobs_task and jobs_archive_task. An error is
-- one of a task: of those that failed, live and of each day of the archive, so many are looked at.
-- told by: DETAILS
WITH found AS (
    (SELECT job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
            resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
            start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code,
            error_dialog, work_queue_id
       FROM jobs
      WHERE (:task_id::bigint IS NULL OR task_id = :task_id) AND (:status::text IS NULL OR status = :status)
        AND (:queue::text IS NULL OR queue = :queue OR (queue IS NULL AND :queue = :no_queue::text))
        AND (:resource_type::text IS NULL OR resource_type = :resource_type) AND (:user_name::text IS NULL OR user_name = :user_name)
        AND (:job_ids::bigint[] IS NULL OR job_id = ANY(:job_ids)) AND (:before_id::bigint IS NULL OR job_id < :before_id)
        AND (:error_kind::text IS NULL
             OR (job_id = ANY(ARRAY(SELECT f.job_id FROM jobs f
                                     WHERE f.task_id = :task_id AND f.status = 'failed'
                                       AND (:queue::text IS NULL OR f.queue = :queue
                                            OR (f.queue IS NULL AND :queue = :no_queue::text)) LIMIT :looked_at::int))
                 AND (error_source, error_code) IS NOT DISTINCT FROM (:error_source::text, :error_code::int)
                 AND orrery_error_kind(coalesce(error_dialog, '')) = :error_kind))
        AND (:owner::text IS NULL
             OR task_id = ANY(ARRAY(SELECT o.task_id FROM tasks o WHERE o.user_name = :owner)))
        AND (NOT :told_only::boolean OR (
             SELECT orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[])
               FROM tasks t WHERE t.task_id = jobs.task_id))
      ORDER BY job_id DESC LIMIT :size::int)
    UNION ALL
    (SELECT job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
            resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
            start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code,
            error_dialog, work_queue_id
       FROM (SELECT * FROM archived_jobs(:job_ids::bigint[])
             UNION ALL
             SELECT * FROM archived_jobs_of_tasks(
                        ARRAY[:task_id::bigint], CASE WHEN :status::text IS NOT NULL THEN ARRAY[:status::text] END,
                        CASE WHEN :error_kind::text IS NOT NULL THEN :looked_at::int
                             WHEN :queue::text IS NULL AND :resource_type::text IS NULL
                                  AND :user_name::text IS NULL THEN :size::int END, :before_id::bigint)
              WHERE :job_ids::bigint[] IS NULL AND :task_id::bigint IS NOT NULL) archived
      WHERE (:task_id::bigint IS NULL OR task_id = :task_id) AND (:status::text IS NULL OR status = :status)
        AND (:queue::text IS NULL OR queue = :queue OR (queue IS NULL AND :queue = :no_queue::text))
        AND (:resource_type::text IS NULL OR resource_type = :resource_type) AND (:user_name::text IS NULL OR user_name = :user_name)
        AND (:before_id::bigint IS NULL OR job_id < :before_id)
        AND (:error_kind::text IS NULL
             OR ((error_source, error_code) IS NOT DISTINCT FROM (:error_source::text, :error_code::int)
                 AND orrery_error_kind(coalesce(error_dialog, '')) = :error_kind))
        AND (:owner::text IS NULL
             OR task_id = ANY(ARRAY(SELECT o.task_id FROM tasks o WHERE o.user_name = :owner)))
        AND (NOT :told_only::boolean OR (
             SELECT orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[])
               FROM tasks t WHERE t.task_id = archived.task_id))
      ORDER BY job_id DESC LIMIT :size::int)
    UNION ALL
    (SELECT job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
            resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
            start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code,
            error_dialog, work_queue_id
       FROM jobs_archive  -- of no job or task in particular: any day may have some
      WHERE :task_id::bigint IS NULL AND :job_ids::bigint[] IS NULL
        AND (:status::text IS NULL OR status = :status)
        AND (:queue::text IS NULL OR queue = :queue OR (queue IS NULL AND :queue = :no_queue::text))
        AND (:resource_type::text IS NULL OR resource_type = :resource_type) AND (:user_name::text IS NULL OR user_name = :user_name)
        AND (:before_id::bigint IS NULL OR job_id < :before_id)
        AND (:owner::text IS NULL
             OR task_id = ANY(ARRAY(SELECT o.task_id FROM tasks o WHERE o.user_name = :owner)))
        AND (NOT :told_only::boolean OR (
             SELECT orrery_may_read(t.user_name, t.vo, :reader::text, :own_vos::text[], :produced_vos::text[])
               FROM tasks t WHERE t.task_id = jobs_archive.task_id))
      ORDER BY job_id DESC LIMIT :size::int)
)
SELECT found.*, t.user_name AS owner, t.vo,
       (SELECT m.sub_status FROM job_set_jobs m WHERE m.job_id = found.job_id) AS job_sub_status
  FROM (SELECT * FROM found ORDER BY job_id DESC LIMIT :size::int) found
  LEFT JOIN LATERAL (SELECT user_name, vo FROM tasks WHERE task_id = found.task_id) t ON true
 ORDER BY job_id DESC;

-- name: error_of_job
-- What a job failed of, live or archived, and whose its task is; its key.
-- told by: nobody; it decides what is listed
SELECT j.task_id, j.error_source, j.error_code, orrery_error_kind(coalesce(j.error_dialog, '')) AS error_kind,
       t.user_name AS owner, t.vo
  FROM (SELECT task_id, status, error_source, error_code, error_dialog FROM jobs WHERE job_id = :job_id
        UNION ALL
        SELECT task_id, status, error_source, error_code, error_dialog FROM archived_jobs(ARRAY[:job_id::bigint])) j
  JOIN tasks t USING (task_id) WHERE j.status = 'failed' LIMIT 1;

-- name: describe_jobs
-- What pilots were given of these jobs and what they reported, as long as that is kept, and how long that is; the latest
-- of those that run.
-- told by: DETAILS
SELECT wanted.job_id, s.task_id, s.spec, r.state AS reported_state, r.report, r.reported_at, t.user_name AS owner, t.vo,
       p.progress, p.reported_at AS progress_at,
       coalesce(octet_length(s.spec::text), 0) + coalesce(octet_length(r.report::text), 0)
           + coalesce(octet_length(p.progress::text), 0) AS n_bytes
  FROM unnest(:job_ids::bigint[]) WITH ORDINALITY AS wanted (job_id, place)
  LEFT JOIN job_specs s ON s.job_id = wanted.job_id
  LEFT JOIN job_reports r ON r.job_id = wanted.job_id
  LEFT JOIN tasks t ON t.task_id = s.task_id
  LEFT JOIN job_progress p ON p.job_id = wanted.job_id
 ORDER BY wanted.place;

-- name: owner_of_task
-- Whose task it is; its key.
-- told by: nobody; it decides what is told
SELECT user_name AS owner, vo FROM tasks WHERE task_id = :task_id;

-- name: metadata_of_task
-- What payloads of the newest finished jobs of a task wrote about themselves; index jobs by task, live and archived.
-- told by: DETAILS
WITH finished AS (
    (SELECT job_id, status FROM jobs WHERE task_id = :task_id AND status = 'finished'
      ORDER BY job_id DESC LIMIT :at_most::int)
    UNION ALL
    (SELECT job_id, status FROM jobs_archive WHERE task_id = :task_id AND status = 'finished'
      ORDER BY job_id DESC LIMIT :at_most::int)
)
SELECT f.job_id, f.status, s.spec->>'outFiles' AS outputs, r.report->'meta_data' AS found
  FROM finished f JOIN job_reports r USING (job_id) LEFT JOIN job_specs s USING (job_id)
 ORDER BY f.job_id DESC LIMIT :at_most::int;

-- name: jobs_by_queue
-- Jobs of each queue by resource type and state, as the statistics count them.
-- told by: STATES
SELECT queue, resource_type, status, sum(n_jobs)::bigint AS n_jobs, sum(n_cores)::bigint AS n_cores
  FROM queue_statistics WHERE n_jobs > 0 GROUP BY queue, resource_type, status ORDER BY queue, resource_type, status;
