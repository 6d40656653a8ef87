-- name: builds_of_task
-- Builds of a task with their libraries; its key begins with the task. Index jobs_pkey.
SELECT b.site, b.job_id AS build_job_id, b.n_failures, f.file_id, f.lfn, f.fsize, f.n_events, f.start_event, f.end_event,
       f.first_event, f.boundary_id, f.lumi_block_nr, f.dataset_id, f.scope, f.guid, f.checksum, f.attempt_nr,
       f.ram_count, f.job_id, coalesce(extract(epoch FROM orrery_now() - j.creation_time), 0)::float8 AS under_way_s
  FROM builds b LEFT JOIN task_files f USING (file_id) LEFT JOIN jobs j ON j.job_id = b.job_id
 WHERE b.task_id = :task_id ORDER BY b.site;

-- name: begin_build
-- One build at a site at a time.
INSERT INTO builds (task_id, site, job_id) VALUES (:task_id, :site, :job_id)
ON CONFLICT (task_id, site) DO UPDATE SET job_id = excluded.job_id WHERE builds.job_id IS NULL;

-- name: keep_libraries
-- What build jobs wrote and the catalogue has. Index task_files_producer.
UPDATE builds b SET file_id = f.file_id, job_id = NULL
  FROM task_files f JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE b.task_id = :task_id AND b.job_id = ANY(:job_ids::bigint[]) AND f.out_job_id = b.job_id AND f.status = 'finished' AND d.stream_name = :stream::text;

-- name: end_builds
-- Build jobs without a library; those that failed are counted.
UPDATE builds SET job_id = NULL, n_failures = n_failures + (job_id = ANY(:failed::bigint[]))::int
 WHERE task_id = :task_id AND job_id = ANY(:job_ids::bigint[]);
