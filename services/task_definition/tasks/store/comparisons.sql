-- name: missing_from_catalogue
-- Finished outputs that the catalogue does not have, with what is needed to register them again. Index task_files_state.
SELECT d.dataset_name, d.container_name, d.scope, d.storage_token AS token, f.lfn, f.fsize, f.checksum, f.guid, j.queue,
       r.report
  FROM task_datasets d
  JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'finished'
  LEFT JOIN catalogue.datasets known ON known.name = d.dataset_name
  LEFT JOIN LATERAL (SELECT queue FROM jobs WHERE job_id = f.out_job_id
                     UNION ALL SELECT queue FROM jobs_archive WHERE job_id = f.out_job_id LIMIT 1) j ON true
  LEFT JOIN job_reports r ON r.job_id = f.out_job_id
 WHERE d.task_id = :task_id AND d.type IN ('output', 'log') AND coalesce(d.attributes ->> 'transient', '') <> 'true'
   AND NOT EXISTS (SELECT FROM catalogue.files c WHERE c.dataset_id = known.dataset_id AND c.lfn = f.lfn)
 ORDER BY d.dataset_name, f.file_id LIMIT :at_most::int;

-- name: logs_without_copies
-- Logs in the catalogue of which no storage has a copy.
SELECT d.dataset_name, c.lfn
  FROM task_datasets d
  JOIN catalogue.datasets known ON known.name = d.dataset_name AND known.state = 'open'
  JOIN catalogue.files c ON c.dataset_id = known.dataset_id
 WHERE d.task_id = :task_id AND d.type = 'log'
   AND NOT EXISTS (SELECT FROM catalogue.dataset_replicas r WHERE r.dataset_id = known.dataset_id AND r.complete)
   AND NOT EXISTS (SELECT FROM catalogue.file_replicas r WHERE r.file_id = c.file_id)
 ORDER BY d.dataset_name, c.lfn;

-- name: differences
-- What is left: outputs that are missing or unlike, and files that no task wrote. A log that was taken out is not missing.
WITH compared AS MATERIALIZED (
    SELECT f.lfn, c.file_id IS NULL AS is_missing,
           (c.size_bytes, c.checksum) IS DISTINCT FROM (f.fsize, f.checksum) AS is_unlike
      FROM task_datasets d
      JOIN task_files f ON f.dataset_id = d.dataset_id AND f.status = 'finished'
      LEFT JOIN catalogue.datasets known ON known.name = d.dataset_name
      LEFT JOIN catalogue.files c ON c.dataset_id = known.dataset_id AND c.lfn = f.lfn
     WHERE d.task_id = :task_id AND d.type IN ('output', 'log') AND coalesce(d.attributes ->> 'transient', '') <> 'true'
       AND (d.type = 'output' OR c.file_id IS NOT NULL)
), unexpected AS MATERIALIZED (
    SELECT c.lfn FROM task_datasets d
      JOIN catalogue.datasets known ON known.name = d.dataset_name
      JOIN catalogue.files c ON c.dataset_id = known.dataset_id
     WHERE d.task_id = :task_id AND d.type IN ('output', 'log')
       AND NOT EXISTS (SELECT FROM task_datasets o JOIN task_files f ON f.dataset_id = o.dataset_id
                        WHERE o.dataset_name = d.dataset_name AND o.type IN ('output', 'log') AND f.lfn = c.lfn)
)
SELECT count(*) FILTER (WHERE is_missing) AS n_missing, min(lfn) FILTER (WHERE is_missing) AS one_missing,
       count(*) FILTER (WHERE is_unlike AND NOT is_missing) AS n_unlike,
       min(lfn) FILTER (WHERE is_unlike AND NOT is_missing) AS one_unlike,
       (SELECT count(*) FROM unexpected) AS n_unexpected, (SELECT min(lfn) FROM unexpected) AS one_unexpected
  FROM compared;
