-- name: scout_progress
-- How many scouts and their files ended well, live, or failed. Index jobs_scouts.
SELECT count(*) FILTER (WHERE jf.is_master AND j.status IN ('finished', 'merging'))::int AS ok_files,
       count(DISTINCT j.job_id) FILTER (WHERE j.status IN ('finished', 'merging'))::int AS ok_jobs,
       count(*) FILTER (WHERE jf.is_master AND j.status = ANY(:live::text[]) AND j.status <> 'merging')::int
           AS live_files,
       count(DISTINCT j.job_id) FILTER (WHERE j.status = ANY(:live::text[]) AND j.status <> 'merging')::int
           AS live_jobs,
       count(DISTINCT j.job_id) FILTER (WHERE j.status = 'failed')::int AS failed_jobs
  FROM jobs j JOIN job_files jf USING (job_id) WHERE j.task_id = :task_id AND j.job_type = 'scout';

-- name: scout_reports
-- Reports of scouts that ended well, with the input of each. Index jobs_scouts.
SELECT j.job_id, j.queue, j.resource_type, j.core_count, j.start_time, coalesce(j.end_time, j.state_change_time) AS
       end_time, r.report, i.n_events, i.n_unknown, i.n_bytes
  FROM jobs j JOIN job_reports r USING (job_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(f.n_events), 0)::bigint AS n_events,
              count(*) FILTER (WHERE f.n_events IS NULL)::int AS n_unknown,
              coalesce(sum(f.fsize), 0)::bigint AS n_bytes
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
