-- name: scout_progress
-- How many scouts and their files ended well, live, or failed; copies of one job count as one, which is as good as the
-- best of them. Indexes jobs_scouts, job_set_jobs_pkey.
WITH scouts AS (
    SELECT bool_or(j.status IN ('finished', 'merging')) AS is_ok, bool_or(j.status = 'failed') AS has_failed,
           bool_or(j.status = ANY(:live::text[]) AND j.status <> 'merging') AS is_live, max(i.n_files) AS n_files
      FROM jobs j LEFT JOIN job_set_jobs m ON m.job_id = j.job_id AND m.role = 'clone'
      CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE is_master) AS n_files, count(*) AS n_all
                            FROM job_files WHERE job_id = j.job_id) i
     WHERE j.task_id = :task_id AND j.job_type = 'scout' AND i.n_all > 0
     GROUP BY coalesce(-m.job_set_id, j.job_id))
SELECT coalesce(sum(n_files) FILTER (WHERE is_ok), 0)::int AS ok_files,
       count(*) FILTER (WHERE is_ok)::int AS ok_jobs,
       coalesce(sum(n_files) FILTER (WHERE is_live AND NOT is_ok), 0)::int AS live_files,
       count(*) FILTER (WHERE is_live AND NOT is_ok)::int AS live_jobs,
       count(*) FILTER (WHERE has_failed AND NOT is_ok AND NOT is_live)::int AS failed_jobs,
       -- units that no job can take: a few rows of the index task_files_state
       (SELECT count(*)::int FROM task_datasets d JOIN task_files f USING (dataset_id)
         WHERE d.task_id = :task_id AND d.type = 'input' AND d.master_id IS NULL
           AND f.status IN ('pending', 'staging', 'missing', 'lost')) AS unusable_files,
       (SELECT count(*)::int FROM task_datasets d JOIN task_files f USING (dataset_id)
         WHERE d.task_id = :task_id AND d.type = 'input' AND d.master_id IS NULL AND f.status = 'lost') AS lost_files
  FROM scouts;

-- name: scout_reports
-- Reports of scouts that ended well, with the input of each. Index jobs_scouts.
SELECT j.job_id, j.queue, j.resource_type, j.core_count, j.start_time, coalesce(j.end_time, j.state_change_time) AS
       end_time, r.report, i.n_events, i.n_unknown, i.n_bytes, i.n_files
  FROM jobs j JOIN job_reports r USING (job_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS n_events,
              count(*) FILTER (WHERE f.n_events IS NULL)::int AS n_unknown,
              coalesce(sum(f.fsize), 0)::bigint AS n_bytes, count(*)::int AS n_files
         FROM job_files jf JOIN task_files f USING (file_id) WHERE jf.job_id = j.job_id AND jf.is_master) i
 WHERE j.task_id = :task_id AND j.job_type = 'scout' AND j.status IN ('finished', 'merging')
 ORDER BY j.job_id LIMIT 1000;

-- name: store_measured
-- What was measured becomes the task's own; what was not stays.
UPDATE tasks SET ram_count = coalesce(:ram_count, ram_count), ram_unit = coalesce(:ram_unit, ram_unit),
       cpu_time = coalesce(:cpu_time, cpu_time), cpu_time_unit = coalesce(:cpu_time_unit, cpu_time_unit),
       walltime = coalesce(:walltime, walltime), walltime_unit = coalesce(:walltime_unit, walltime_unit),
       io_intensity = coalesce(:io_intensity, io_intensity),
       io_intensity_unit = coalesce(:io_intensity_unit, io_intensity_unit),
       disk_io = coalesce(:disk_io, disk_io), disk_io_unit = coalesce(:disk_io_unit, disk_io_unit),
       out_disk_count = coalesce(:out_disk_count, out_disk_count),
       out_disk_unit = coalesce(:out_disk_unit, out_disk_unit),
       work_disk_count = coalesce(:work_disk_count, work_disk_count),
       work_disk_unit = coalesce(:work_disk_unit, work_disk_unit), measured_units = :measured_units
 WHERE task_id = :task_id;

-- name: broken_files
-- Files of these datasets that jobs found corrupted. Index task_files_state.
SELECT count(*) FROM task_files WHERE dataset_id = ANY(:dataset_ids::bigint[]) AND status = 'broken';

-- name: reports_of_ended_jobs
-- Reports of up to 1000 jobs of a task that finished, scouts among them, with the input of each. Index jobs_task.
WITH ended AS (
    (SELECT job_id, queue, core_count, start_time, end_time FROM jobs
      WHERE task_id = :task_id AND status = 'finished' AND (job_type = 'merge') = :merge LIMIT 1000)
    UNION ALL
    (SELECT job_id, queue, core_count, start_time, end_time
       FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], ARRAY['finished'], 1000)
      WHERE (job_type = 'merge') = :merge LIMIT 1000))
SELECT e.job_id, e.queue, e.core_count, e.start_time, e.end_time, r.report, i.n_events, i.n_unknown, i.n_bytes,
       i.n_files
  FROM (SELECT * FROM ended LIMIT 1000) e JOIN job_reports r USING (job_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS n_events,
              count(*) FILTER (WHERE f.n_events IS NULL)::int AS n_unknown,
              coalesce(sum(f.fsize), 0)::bigint AS n_bytes, count(*)::int AS n_files
         FROM job_files jf JOIN task_files f USING (file_id) WHERE jf.job_id = e.job_id AND jf.is_master) i
 ORDER BY e.job_id;

-- name: rest_of_input
-- Files and events of the master datasets that no job has taken, in chunks or not; events NULL where they are not known.
WITH offered AS (
    SELECT coalesce(sum(n_files), 0) AS n_files, coalesce(sum(n_events), 0) AS n_events FROM chunks
     WHERE task_id = :task_id AND status = 'offered' AND kind <> 'merge')
SELECT (coalesce(sum(d.n_files - d.n_files_used), 0) + max(o.n_files))::bigint AS n_files,
       CASE WHEN bool_and(d.n_events IS NOT NULL)
            THEN (sum(greatest(d.n_events - coalesce(d.n_events_used, 0), 0)) + max(o.n_events))::bigint END AS n_events
  FROM task_datasets d CROSS JOIN offered o WHERE d.dataset_id = ANY(:dataset_ids::bigint[]);

-- name: is_measured_again
-- Whether as many jobs of the task have finished as its needs are measured again after.
SELECT EXISTS (SELECT FROM task_job_counts WHERE task_id = :task_id AND n_finished >= measures_at);

-- name: ask_to_measure_again
-- The needs of the task are measured again when more of its jobs have ended.
INSERT INTO task_job_counts AS c (task_id, n_finished, n_failed, measures_at) VALUES (:task_id, 0, 0, :n_more)
ON CONFLICT (task_id) DO UPDATE SET measures_at = least(c.measures_at, c.n_finished + :n_more);

-- name: was_measured_again
-- Not again, until something asks for it.
UPDATE task_job_counts SET measures_at = NULL WHERE task_id = :task_id;

-- name: set_resource_type
-- What the task is with the memory that was measured.
UPDATE tasks SET resource_type = :resource_type WHERE task_id = :task_id AND resource_type <> :resource_type;

-- name: store_measured_merging
-- Memory and time of merge jobs; what was not measured stays.
UPDATE tasks SET merge_ram_count = coalesce(:ram_mb, merge_ram_count),
       merge_ram_unit = CASE WHEN :ram_mb::bigint IS NULL THEN merge_ram_unit ELSE 'MB' END,
       merge_walltime = coalesce(:walltime_s, merge_walltime)
 WHERE task_id = :task_id;
