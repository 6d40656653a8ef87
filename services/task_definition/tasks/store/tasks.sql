-- name: lock_task
-- The row of a task, held until the commit: everything that changes a task takes this lock first.
-- told by: nobody; it is locked to be changed
SELECT t.task_id, t.task_name, t.user_name, t.submitted_by, t.vo, t.prod_source_label, t.task_type, t.status, t.old_status, t.parent_tid,
       t.nucleus, t.site, t.cloud, t.task_priority, t.current_priority, t.split_rule, t.max_attempt, t.max_failure,
       t.goal, t.gshare, t.resource_type, t.measured_units, t.walltime_unit, t.command, t.command_details, t.retry_at,
       t.error_dialog, t.takes_unstaged, t.hold, t.held_until
  FROM tasks t WHERE t.task_id = :task_id FOR NO KEY UPDATE;

-- name: parameters_of_task
-- The parameters as they were submitted, or as a command changed them.
-- told by: DETAILS
SELECT task_parameters FROM task_parameters WHERE task_id = :task_id;

-- name: status_of_task
-- The state of a task, without waiting for whoever changes it; of an archived one how it ended.
-- told by: STATES
SELECT status FROM tasks WHERE task_id = :task_id
UNION ALL SELECT status FROM tasks_archive WHERE task_id = :task_id LIMIT 1;

-- name: named_tasks
-- Tasks that others refer to by id, with what decides who may (access.DETAILS).
-- told by: nobody; it decides what is told
SELECT task_id, status, user_name, vo FROM tasks WHERE task_id = ANY(:task_ids::bigint[]);

-- name: whose_task
-- Owner and VO of a task, also of one that is in the archive alone. By primary keys.
-- told by: nobody; it decides what is told
SELECT user_name, vo FROM tasks WHERE task_id = :task_id
UNION ALL SELECT user_name, vo FROM tasks_archive WHERE task_id = :task_id LIMIT 1;

-- name: insert_task
-- A new task with the JSON as it was submitted, unless it is to be the only one of its name and there is one. Without an
-- id it gets the next one. Index tasks_unique_name.
-- done for: SUBMITTING
WITH numbered AS (SELECT coalesce(:task_id::bigint, nextval('task_ids')) AS task_id), new AS (
INSERT INTO tasks (task_id, status, task_name, user_name, prod_source_label, working_group, vo, core_count, task_type,
                   processing_type, task_priority, current_priority, architecture, trans_uses, trans_home, trans_path,
                   split_rule, walltime, walltime_unit, out_disk_count, out_disk_unit, work_disk_count, work_disk_unit,
                   ram_count, ram_unit, io_intensity, io_intensity_unit, work_queue_id, cloud, site, req_id,
                   country_group, parent_tid, ticket_id, ticket_system_type, campaign, merge_ram_count,
                   merge_ram_unit, merge_core_count, goal, cpu_time, cpu_time_unit, cpu_efficiency, base_walltime,
                   nucleus, base_ram_count, request_type, disk_io, disk_io_unit, gshare, resource_type, max_attempt, max_failure,
                   fixed_units, ip_connectivity, container_name, num_throttled, term_condition, event_service,
                   use_jumbo, unique_name, submitted_by)
SELECT n.task_id, 'registered', r.task_name, r.user_name, r.prod_source_label, r.working_group, r.vo, r.core_count,
       r.task_type, r.processing_type, r.task_priority, r.current_priority, r.architecture, r.trans_uses, r.trans_home,
       r.trans_path, r.split_rule, r.walltime, r.walltime_unit, r.out_disk_count, r.out_disk_unit, r.work_disk_count,
       r.work_disk_unit, r.ram_count, r.ram_unit, r.io_intensity, r.io_intensity_unit, r.work_queue_id, r.cloud, r.site,
       coalesce(r.req_id, n.task_id), r.country_group, coalesce(r.parent_tid, n.task_id), r.ticket_id, r.ticket_system_type, r.campaign,
       r.merge_ram_count, r.merge_ram_unit, r.merge_core_count, r.goal, r.cpu_time, r.cpu_time_unit, r.cpu_efficiency,
       r.base_walltime, r.nucleus, r.base_ram_count, r.request_type, r.disk_io, r.disk_io_unit, r.gshare, r.resource_type, r.max_attempt,
       r.max_failure, coalesce(r.fixed_units, '{}'), r.ip_connectivity, r.container_name, r.num_throttled,
       r.term_condition, coalesce(r.event_service, 0), r.use_jumbo, coalesce(r.unique_name, false),
       r.submitted_by
  FROM numbered n, jsonb_populate_record(NULL::tasks, :columns::jsonb) r
ON CONFLICT (vo, task_name) WHERE unique_name DO NOTHING
RETURNING task_id)
INSERT INTO task_parameters (task_id, task_parameters) SELECT task_id, :parameters::jsonb FROM new RETURNING task_id;

-- name: put_deadline
-- By when the task is wanted, as its parameters say it. Of a task that is retried it is worked out anew when it works.
-- done for: SUBMITTING, COMMANDS
INSERT INTO task_deadlines (task_id, due_at) VALUES (:task_id, :due_at)
ON CONFLICT (task_id) DO UPDATE
SET due_at = excluded.due_at, look_at = orrery_now() + interval '1 minute', older_at = NULL, older_n = NULL,
    newer_at = NULL, newer_n = NULL;

-- name: move_task
-- Compare-and-set of a status, with what goes along with it.
-- done for: COMMANDS
UPDATE tasks
   SET status = :status, old_status = :old_status, error_dialog = :error_dialog, retry_at = :retry_at,
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[])
RETURNING task_id;

-- name: end_task
-- When a task reached its end; AMI is to know of one that is done or finished.
UPDATE tasks SET end_time = orrery_now(),
       ami_flag = CASE WHEN status IN ('done', 'finished') THEN 'READY' ELSE ami_flag END
 WHERE task_id = :task_id;

-- name: note_command
-- The last command for a task, for people and for the services that carry it out.
-- done for: COMMANDS
UPDATE tasks SET command = :command, command_time = orrery_now(), command_details = :details::jsonb
 WHERE task_id = :task_id;

-- name: children_of_task
-- Tasks that wait for this one, in order of id.
SELECT task_id, status, old_status, hold, user_name FROM tasks
 WHERE parent_tid = :task_id AND task_id <> :task_id ORDER BY task_id;

-- name: look_at_input
-- Input that is looked at from time to time is looked at next; what was not looked at any more is again, for a day.
UPDATE task_datasets
   SET state_check_time = '-infinity',
       state_check_expiration = coalesce(state_check_expiration, orrery_now() + interval '1 day')
 WHERE task_id = :task_id AND type = 'input';

-- name: has_food
-- Whether a parent made files that a child has not read, unless its last retry left children as they are. Contents that
-- did not change since they were read are not gone through.
SELECT EXISTS (
    SELECT FROM tasks p JOIN task_datasets o ON o.task_id = p.task_id AND o.type IN ('output', 'log')
      JOIN task_datasets d ON d.task_id = :child_id AND d.type = 'input' AND d.dataset_name = o.dataset_name
      JOIN catalogue.datasets c ON c.name = d.dataset_name
     WHERE p.task_id = :parent_id AND c.contents_version IS DISTINCT FROM d.contents_version
       AND NOT coalesce((p.command_details ->> 'no_child_retry')::boolean, false)
       AND EXISTS (SELECT FROM catalogue.files f
                    WHERE f.dataset_id = c.dataset_id
                      AND NOT EXISTS (SELECT FROM task_files t WHERE t.dataset_id = d.dataset_id AND t.lfn = f.lfn)));

-- name: release_now
-- A pending task need not wait longer: the watchdog takes it up at its next look.
-- done for: COMMANDS
UPDATE tasks SET retry_at = orrery_now() WHERE task_id = :task_id AND status = 'pending';

-- name: look_now
-- A task that makes jobs has something new to do.
UPDATE tasks SET retry_at = orrery_now()
 WHERE task_id = :task_id AND status IN ('ready', 'scouting', 'scouted', 'running');

-- name: same_name
-- The task of a VO whose name is to be the only one there, else the first of that name. Index tasks_name.
SELECT task_id, user_name, vo, unique_name FROM tasks WHERE task_name = :task_name AND vo = :vo
 ORDER BY unique_name DESC, task_id LIMIT 1;

-- name: outputs_of_task
-- What a task writes.
SELECT dataset_name FROM task_datasets
 WHERE task_id = :task_id AND type IN ('output', 'log', 'trn_output', 'trn_log', 'tmpl_output', 'tmpl_log');

-- name: lock_names
-- Whoever begins to write one of these datasets waits until the one before has committed.
SELECT pg_advisory_xact_lock(hashed.name)
  FROM (SELECT DISTINCT hashtextextended(name, 0) AS name FROM unnest(:names::text[]) AS x (name) ORDER BY 1) hashed;

-- name: writers_of_datasets
-- Tasks that write these datasets, or did before they were archived, at most so many of each, with the names that they
-- give their files there; of those that are not defined yet what their parameters say. For a task that is being defined
-- (besides) only earlier ones of these count: of two that are defined at one moment exactly one goes on. Who says these
-- names is found before their states are looked at: the other way reads the parameters of all that are registered.
-- Indexes task_parameters_outputs, task_datasets_name, tasks_archive_outputs.
WITH saying AS MATERIALIZED (
    SELECT task_id, orrery_stated_outputs(task_parameters) AS names FROM task_parameters
     WHERE orrery_stated_outputs(task_parameters) && :names::text[])
(SELECT given.name AS dataset_name, t.task_id, t.user_name, coalesce(t.vo, '') AS vo, '{}'::text[] AS templates
   FROM saying s JOIN tasks t USING (task_id) CROSS JOIN LATERAL unnest(s.names) given (name)
  WHERE t.status = 'registered' AND given.name = ANY(:names::text[]) AND (:besides::bigint IS NULL OR t.task_id < :besides)
    AND NOT EXISTS (SELECT FROM task_datasets w WHERE w.task_id = t.task_id AND w.dataset_name = given.name)
  LIMIT :most::int * cardinality(:names::text[]))
UNION ALL
SELECT d.dataset_name, d.task_id, t.user_name, coalesce(t.vo, '') AS vo,
       ARRAY(SELECT o.file_name_template FROM output_templates o
              WHERE o.dataset_id = ANY(d.ids) AND o.file_name_template IS NOT NULL) AS templates
  FROM unnest(:names::text[]) AS w (name)
 CROSS JOIN LATERAL (
       SELECT n.dataset_name, n.task_id, array_agg(n.dataset_id) AS ids
         FROM (SELECT dataset_name, task_id, dataset_id FROM task_datasets
                WHERE dataset_name = w.name
                  AND type IN ('output', 'log', 'trn_output', 'trn_log', 'tmpl_output', 'tmpl_log')
                  AND (:besides::bigint IS NULL OR task_id <> :besides)
                LIMIT :most::int) n
        GROUP BY n.dataset_name, n.task_id) d
  JOIN tasks t USING (task_id)
UNION ALL
SELECT w.name, a.task_id, a.user_name, coalesce(a.vo, ''), ARRAY(SELECT jsonb_array_elements_text(a.outputs -> w.name))
  FROM unnest(:names::text[]) AS w (name)
 CROSS JOIN LATERAL (SELECT * FROM tasks_archive WHERE outputs ? w.name LIMIT :most::int) a
 ORDER BY dataset_name, task_id;

-- name: asked_by_submission
-- What every submission asks before it is read further: the version of shares, resource types and work queues; whether
-- the VO is known; the task of its name, as same_name has it; whether who submits has series of tasks.
-- told by: SUBMITTING; the task of the name by DETAILS
SELECT (SELECT version FROM versions WHERE name = 'classes') AS classes_version,
       orrery_is_known_vo(:vo) AS is_known_vo,
       EXISTS (SELECT FROM periodic_tasks p WHERE p.submitter = :caller AND p.status <> 'ended') AS has_series,
       n.task_id, n.user_name, n.vo, n.unique_name
  FROM (SELECT) one LEFT JOIN LATERAL (
       SELECT task_id, user_name, vo, unique_name FROM tasks WHERE task_name = :task_name AND vo = :vo
        ORDER BY unique_name DESC, task_id LIMIT 1) n ON true;

-- name: share_nodes
-- The tree of shares in the order in which they are matched.
-- told by: STATES
SELECT gshare, parent, prod_source_label, working_group, campaign, processing_type, trans_path, resource_type, vo
  FROM shares ORDER BY position, gshare;

-- name: resource_types
-- The resource types, in the order in which they are matched.
-- told by: STATES
SELECT resource_name, min_core, max_core, min_ram_per_core, max_ram_per_core FROM resource_types ORDER BY position;

-- name: try_expression
-- Raises where the expression is not one of PostgreSQL's.
SELECT '' ~ :pattern::text;

-- name: grid_pref
-- The special permissions of a user in a VO.
SELECT grid_pref FROM orrery_account(:user_name::text, :vo::text);
