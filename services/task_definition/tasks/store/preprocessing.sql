-- name: insert_unit
-- What a pre-processing job works on: one unit without data.
WITH unit AS (
    INSERT INTO task_files (dataset_id, task_id, lfn, type, status, max_attempt, max_failure)
    VALUES (:dataset_id, :task_id, 'preprocess_' || :task_id::bigint, 'pp_input', 'ready', :max_attempt, :max_failure))
UPDATE task_datasets
   SET status = 'ready', n_files = 1, n_files_to_be_used = 1, state_check_time = orrery_now(),
       modification_time = orrery_now()
 WHERE dataset_id = :dataset_id AND status = ANY(:allowed::text[]);

-- name: take_result
-- What the pre-processing job of a task returned, once.
DELETE FROM preprocessing_results WHERE task_id = :task_id RETURNING returned;

-- name: has_result
-- Whether the pre-processing job of a task returned something that the task was not refined with.
SELECT EXISTS (SELECT FROM preprocessing_results WHERE task_id = :task_id);

-- name: take_out_unit
-- The unit of a pre-processing job that is done leaves the task.
WITH gone AS (
    DELETE FROM task_files f USING task_datasets d
     WHERE d.task_id = :task_id AND d.type = 'pp_input' AND f.dataset_id = d.dataset_id AND f.status = 'finished'
    RETURNING f.file_id),
emptied AS (
    UPDATE task_datasets
       SET status = 'removed', n_files = 0, n_files_to_be_used = 0, n_files_used = 0, n_files_finished = 0,
           n_files_failed = 0, modification_time = orrery_now()
     WHERE task_id = :task_id AND type = 'pp_input' AND status = ANY(:allowed::text[]))
SELECT file_id FROM gone;

-- name: change_definition
-- Parameters that a pre-processing job returned, with the columns that follow from them; whose task it is, its
-- priority and its share stay.
WITH kept AS (UPDATE task_parameters SET task_parameters = :parameters::jsonb WHERE task_id = :task_id)
UPDATE tasks t
   SET core_count = r.core_count, processing_type = r.processing_type, architecture = r.architecture,
       trans_uses = r.trans_uses, trans_home = r.trans_home, trans_path = r.trans_path,
       container_name = r.container_name, walltime = r.walltime, walltime_unit = r.walltime_unit,
       out_disk_count = r.out_disk_count, out_disk_unit = r.out_disk_unit, work_disk_count = r.work_disk_count,
       work_disk_unit = r.work_disk_unit, ram_count = r.ram_count, ram_unit = r.ram_unit,
       base_ram_count = r.base_ram_count, io_intensity = r.io_intensity, io_intensity_unit = r.io_intensity_unit,
       disk_io = r.disk_io, disk_io_unit = r.disk_io_unit, cpu_time = r.cpu_time, cpu_time_unit = r.cpu_time_unit,
       cpu_efficiency = r.cpu_efficiency, base_walltime = r.base_walltime, ip_connectivity = r.ip_connectivity,
       merge_ram_count = r.merge_ram_count, merge_ram_unit = r.merge_ram_unit, merge_core_count = r.merge_core_count,
       cloud = r.cloud, site = r.site, nucleus = r.nucleus, campaign = r.campaign, goal = r.goal,
       max_attempt = r.max_attempt, max_failure = r.max_failure, num_throttled = r.num_throttled,
       term_condition = r.term_condition, event_service = coalesce(r.event_service, 0), use_jumbo = r.use_jumbo,
       country_group = r.country_group, ticket_id = r.ticket_id, ticket_system_type = r.ticket_system_type,
       request_type = r.request_type, fixed_units = coalesce(r.fixed_units, '{}'), modification_time = orrery_now()
  FROM jsonb_populate_record(NULL::tasks, :columns::jsonb) r
 WHERE t.task_id = :task_id;
