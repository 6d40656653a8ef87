-- name: classified_task
-- What a task belongs to, and the columns that this depends on; its row is locked.
-- told by: nobody; it decides which class a task has
SELECT status, resource_type, gshare, work_queue_id, core_count, ram_count, ram_unit, base_ram_count, site,
       user_name
  FROM tasks WHERE task_id = :task_id;

-- name: reclassify_task
-- Its new jobs take these.
-- done for: COMMANDS
UPDATE tasks SET resource_type = :resource_type, gshare = :gshare, work_queue_id = :work_queue_id,
       modification_time = orrery_now()
 WHERE task_id = :task_id;
