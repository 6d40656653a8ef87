-- name: count_raised_memory
-- Input of a task asks for more memory than before: so many more, or fewer, for each amount.
WITH fewer AS (
    UPDATE raised_memory r SET n_files = greatest(r.n_files + n.n_files, 0)
      FROM unnest(:rams::bigint[], :changes::bigint[]) AS n (ram_mb, n_files)
     WHERE r.task_id = :task_id AND r.ram_mb = n.ram_mb AND n.n_files < 0)
INSERT INTO raised_memory AS r (task_id, ram_mb, n_files)
SELECT :task_id, n.ram_mb, n.n_files
  FROM unnest(:rams::bigint[], :changes::bigint[]) AS n (ram_mb, n_files) WHERE n.n_files > 0 ORDER BY n.ram_mb
ON CONFLICT (task_id, ram_mb) DO UPDATE SET n_files = r.n_files + excluded.n_files;

-- name: raised_memory_of_task
-- How much input of the task asks for which memory, and how much input there is.
SELECT r.ram_mb, r.n_files FROM raised_memory r WHERE r.task_id = :task_id AND r.n_files > 0 ORDER BY r.ram_mb;

-- name: raise_task_memory
-- The whole task asks for more, and is of the resource type that this makes it; never less than before.
UPDATE tasks SET ram_count = :ram_mb, resource_type = :resource_type, modification_time = orrery_now()
 WHERE task_id = :task_id AND coalesce(ram_count, 0) < :ram_mb RETURNING task_id;

-- name: set_task_cpu_time
-- The CPU time of a task that stated none, from a job that ran out of time.
UPDATE tasks SET cpu_time = :cpu_time, cpu_time_unit = 'HS06sPerEvent', modification_time = orrery_now()
 WHERE task_id = :task_id AND coalesce(cpu_time, 0) = 0 RETURNING task_id;

-- name: change_split_rule
-- The rules by which the task is cut from now on; those that differ from before count as measured.
UPDATE tasks t
   SET split_rule = :split_rule::jsonb, modification_time = orrery_now(),
       measured_rules = ARRAY(
           SELECT unnest(t.measured_rules)
            UNION SELECT n.name
                    FROM jsonb_object_keys(coalesce(t.split_rule, '{}') || :split_rule::jsonb) AS n (name)
                   WHERE t.split_rule -> n.name IS DISTINCT FROM :split_rule::jsonb -> n.name
            ORDER BY 1)
 WHERE t.task_id = :task_id;

-- name: avoid_sites
-- Where these units are not tried again as long as there is another site.
UPDATE task_files f SET avoided_site = n.site
  FROM unnest(:ids::bigint[], :sites::text[]) AS n (file_id, site) WHERE f.file_id = n.file_id;
