-- name: files_to_jobs
-- Picked files belong to their new jobs.
UPDATE task_files f SET status = 'running', job_id = n.job_id, last_attempt_time = orrery_now(), chunk_id = NULL
  FROM unnest(:ids::bigint[], :job_ids::bigint[]) AS n (file_id, job_id)
 WHERE f.file_id = n.file_id AND f.status = 'picked'
RETURNING f.file_id, f.dataset_id, f.type,
          coalesce(f.n_events, 0) AS events;

-- name: take_serials
-- Serial numbers for the outputs of a batch of jobs: nobody else gets the same.
UPDATE output_templates SET serial_nr = serial_nr + :count
 WHERE out_temp_id = ANY(:ids::bigint[]) RETURNING out_temp_id, serial_nr - :count AS first_serial;

-- name: known_shapes
-- The ids of these requirements, where they have one.
SELECT shape_id, prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo
  FROM requirement_shapes
 WHERE (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent, vo) IN
       (SELECT * FROM unnest(:labels::text[], :types::text[], :cores::int[], :rams::int[], :disks::int[], :walls::int[],
                             :urgent::boolean[], :vos::text[]));

-- name: add_shapes
-- Requirements that nobody asked for before, in one order for everybody.
INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s, is_urgent,
                                vo)
SELECT DISTINCT * FROM unnest(:labels::text[], :types::text[], :cores::int[], :rams::int[], :disks::int[], :walls::int[],
                              :urgent::boolean[], :vos::text[])
 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
ON CONFLICT DO NOTHING;

-- name: origins_of_jobs
-- The first attempt that these jobs repeat.
SELECT new_job_id, coalesce(origin_job_id, old_job_id) AS origin FROM job_retry_history
 WHERE new_job_id = ANY(:ids::bigint[]);

-- name: archive_jobs
-- Counted jobs move to the archive; scouts stay while they are judged. Index jobs_applied.
WITH old AS MATERIALIZED (
    SELECT j.job_id FROM jobs j
     WHERE j.results_applied_at < :before AND j.status IN ('finished', 'failed', 'closed', 'cancelled')
       AND NOT (j.job_type = 'scout' AND EXISTS (SELECT FROM tasks t WHERE t.task_id = j.task_id
                  AND (t.status = 'scouting' OR t.old_status = 'scouting')))
     ORDER BY j.results_applied_at, j.job_id LIMIT :count FOR UPDATE OF j SKIP LOCKED),
gone AS (DELETE FROM jobs j USING old o WHERE j.job_id = o.job_id
         RETURNING j.job_id, j.task_id, j.chunk_id, j.shape_id, j.current_priority, j.core_count, j.attempt_number,
                   j.status, j.queue, j.resource_type, j.gshare, j.user_name, j.prod_source_label, j.job_type,
                   j.creation_time, j.state_change_time, j.start_time, j.end_time, j.heartbeat_at,
                   j.results_applied_at, j.worker, j.command, j.error_source, j.error_code, j.error_dialog,
                   j.work_queue_id)
INSERT INTO jobs_archive (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,
       queue, resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
       start_time, end_time, heartbeat_at, results_applied_at, worker, command, error_source, error_code, error_dialog,
       work_queue_id, archived_at)
SELECT *, orrery_now() FROM gone ORDER BY job_id
RETURNING job_id;

-- name: standing_of_owner
-- Live jobs of a user of a VO, as the statistics count them, and how far the user is over the quota there. Index
-- queue_statistics_user.
SELECT coalesce((SELECT greatest(sum(n_jobs), 0) FROM orrery_jobs_of_account(:user_name::text, :vo::text)), 0)::bigint
           AS n_jobs,
       coalesce((SELECT priority_weight FROM orrery_account(:user_name::text, :vo::text)), 0) AS weight;
