-- name: list_tasks
-- Newest first; every filter may be NULL. A filter on what the state view hides finds only what the reader may have in
-- full (told_only); of whoever produces nothing that is their own (owner). Indexes tasks_user_newest, tasks_vo_newest,
-- tasks_user, tasks_by_status, tasks_passing, task_names_parts.
-- told by: DETAILS
SELECT task_id, task_name, user_name, working_group, vo, prod_source_label, task_type, processing_type, status,
       old_status, task_priority, current_priority, gshare, resource_type, nucleus, site, cloud, progress, failure_rate,
       error_dialog, retry_at, creation_date, start_time, end_time, modification_time, state_change_time, req_id,
       parent_tid, campaign
  FROM tasks LEFT JOIN task_names n USING (task_id)
 WHERE (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
   AND (:user_name::text IS NULL OR user_name = :user_name)
   AND (:label::text IS NULL OR prod_source_label = :label)
   AND (:task_type::text IS NULL OR task_type = :task_type)
   AND (:name::text IS NULL OR n.name LIKE :name)
   AND (:common_name::text IS NULL  -- not by the index, which has most names for it
        OR (n.name || '' LIKE :common_name AND n.task_id > :common_after::bigint))
   AND (:modified_since::timestamptz IS NULL OR modification_time >= :modified_since)
   AND (:min_task_id::bigint IS NULL OR task_id >= :min_task_id)
   AND (:req_id::bigint IS NULL OR req_id = :req_id)
   AND (:waits_longer_s::float8 IS NULL
        OR (status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running')
            AND coalesce(frozen_time, state_change_time) < orrery_now() - make_interval(secs => :waits_longer_s::float8)))
   AND (:task_ids::bigint[] IS NULL OR task_id = ANY(:task_ids::bigint[]))
   AND (:vo::text IS NULL OR vo = :vo) AND (:before_id::bigint IS NULL OR task_id < :before_id)
   AND (:owner::text IS NULL OR user_name = :owner)
   AND (NOT :told_only::boolean
        OR orrery_may_read(user_name, vo, :reader::text, :own_vos::text[], :produced_vos::text[]))
 ORDER BY task_id DESC LIMIT :at_most::int OFFSET :skip::int;

-- name: newest_names
-- Names of the newest tasks before an id (NULL: before none); the primary key.
-- told by: nobody; it decides how names are looked for
SELECT task_id, name FROM task_names WHERE :before_id::bigint IS NULL OR task_id < :before_id
 ORDER BY task_id DESC LIMIT :at_most::int;

-- name: longest_in_state
-- Tasks of a user that are longest in passing states, the longest first: of each state so many. Index
-- tasks_passing_of_user.
-- told by: DETAILS
SELECT t.task_id FROM unnest(:statuses::text[]) AS s (status)
 CROSS JOIN LATERAL (
        SELECT task_id, state_change_time FROM tasks
         WHERE user_name = :user_name AND tasks.status = s.status
           AND tasks.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running')
           AND orrery_may_read(user_name, vo, :reader::text, :own_vos::text[], :produced_vos::text[])
         ORDER BY state_change_time, task_id LIMIT :at_most::int) t
 ORDER BY t.state_change_time, t.task_id LIMIT :at_most::int;

-- name: users_of_live_tasks
-- Names of people with live tasks that begin so, of those whose tasks the reader may read, one after the other: index
-- tasks_of_live_users is gone through from name to name, so many steps at most.
-- told by: DETAILS
WITH RECURSIVE known AS (
    (SELECT user_name, vo, 1 AS step FROM tasks
      WHERE user_name >= :start AND status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted') ORDER BY user_name, vo LIMIT 1)
    UNION ALL
    SELECT later.user_name, later.vo, known.step + 1 FROM known
     CROSS JOIN LATERAL (SELECT t.user_name, t.vo FROM tasks t
                          WHERE (t.user_name, t.vo) > (known.user_name, known.vo) AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
                          ORDER BY t.user_name, t.vo LIMIT 1) later
     WHERE known.step < :most_steps::int AND starts_with(known.user_name, :start))
SELECT DISTINCT user_name AS name FROM known
 WHERE starts_with(user_name, :start)
   AND orrery_may_read(user_name, vo, :reader::text, :own_vos::text[], :produced_vos::text[])
 ORDER BY user_name LIMIT :at_most::int;

-- name: vos_of_tasks
-- VOs that begin so and have tasks: index tasks_vo_newest is gone through from VO to VO.
-- told by: STATES
WITH RECURSIVE known AS (
    (SELECT vo, 1 AS step FROM tasks WHERE vo >= :start ORDER BY vo LIMIT 1)
    UNION ALL
    SELECT (SELECT t.vo FROM tasks t WHERE t.vo > known.vo ORDER BY t.vo LIMIT 1), known.step + 1 FROM known
     WHERE known.vo IS NOT NULL AND known.step < :most_steps::int)
SELECT vo AS name FROM known WHERE starts_with(vo, :start) ORDER BY vo LIMIT :at_most::int;

-- name: held_back
-- Why no jobs are made of these tasks now: their share has enough, and they have open input that no job has.
-- told by: DETAILS
SELECT g.task_id, g.reason FROM generation_decisions g JOIN tasks t USING (task_id)
 WHERE g.task_id = ANY(:task_ids::bigint[]) AND g.outcome = 'throttled' AND t.retry_at IS NOT NULL
   AND EXISTS (SELECT FROM task_datasets d
                WHERE d.task_id = g.task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
                  AND d.n_files_used < least(d.n_files, d.n_files_to_be_used));

-- name: files_by_task
-- Files of the master inputs.
-- told by: STATES
SELECT task_id, sum(n_files)::bigint AS total, sum(n_files_to_be_used)::bigint AS opened,
       sum(n_files_used)::bigint AS used, sum(n_files_finished)::bigint AS finished, sum(n_files_failed)::bigint AS failed,
       sum(n_files_on_hold)::bigint AS on_hold, sum(n_files_waiting)::bigint AS waiting
  FROM task_datasets
 WHERE task_id = ANY(:task_ids::bigint[]) AND type IN ('input', 'pseudo_input', 'pp_input') AND master_id IS NULL
 GROUP BY task_id;

-- name: jobs_by_task
-- Jobs by state, those of the archive included.
-- told by: STATES
SELECT task_id, status, sum(n)::bigint AS n_jobs FROM (
        SELECT task_id, status, count(*) AS n FROM jobs WHERE task_id = ANY(:task_ids::bigint[]) GROUP BY 1, 2
        UNION ALL
        SELECT task_id, status, n_jobs FROM archived_job_counts(:task_ids::bigint[])) j
 GROUP BY task_id, status ORDER BY task_id, status;

-- name: some_jobs_by_task
-- The same, of at most so many jobs of each state, and of each day of the archive. Indexes jobs_task, jobs_archive_task.
-- The order has the index read, however few are wanted: a state that a large task has not is no reason to read the table.
-- told by: STATES
SELECT task_id, status, sum(n)::bigint AS n_jobs FROM (
        SELECT task_id, status, few.n FROM unnest(:task_ids::bigint[]) AS task_id, unnest(:statuses::text[]) AS status
         CROSS JOIN LATERAL (
               SELECT count(*) AS n
                 FROM (SELECT FROM jobs j
                        WHERE (j.task_id, j.status) >= (task_id.task_id, status.status)
                          AND (j.task_id, j.status) <= (task_id.task_id, status.status)
                        ORDER BY j.task_id, j.status LIMIT :at_most::bigint) j) few
        UNION ALL
        SELECT task_id, status, n_jobs FROM archived_job_counts(:task_ids::bigint[], :at_most::bigint)) j
 GROUP BY task_id, status HAVING sum(n) > 0 ORDER BY task_id, status;

-- name: job_types_of_task
-- Jobs of a task by type and state, those of the archive included, of at most so many. Indexes jobs_task,
-- jobs_archive_task.
-- told by: OPERATORS
SELECT job_type, status, count(*) AS n_jobs FROM (
        (SELECT job_type, status FROM jobs WHERE task_id = :task_id LIMIT :at_most::int)
        UNION ALL
        (SELECT job_type, status FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], NULL, :at_most::int))
        LIMIT :at_most::int) j
 GROUP BY job_type, status ORDER BY job_type, status;

-- name: event_ranges_of_task
-- Ranges of a task's events by state, and how many of them jumbo jobs had, of at most so many. Index event_ranges_id.
-- told by: OPERATORS
SELECT status, count(*) AS n_ranges, count(*) FILTER (WHERE is_jumbo) AS n_jumbo
  FROM (SELECT status, is_jumbo FROM event_ranges WHERE task_id = :task_id LIMIT :at_most::int) counted
 GROUP BY status ORDER BY status;

-- name: retry_actions_of_task
-- What rules about errors did for a task, by action, as long as its decisions are kept. Index retry_decisions_task.
-- told by: OPERATORS
SELECT action, count(*) AS n_jobs FROM retry_decisions WHERE task_id = :task_id AND is_active
 GROUP BY action ORDER BY action;

-- name: task_details
-- Every column of a task, for people.
-- told by: DETAILS
SELECT to_jsonb(t) FROM tasks t WHERE task_id = :task_id;

-- name: datasets_of_task
-- Datasets of a task; the types may be NULL.
-- told by: DETAILS
SELECT dataset_id, dataset_name, container_name, type, stream_name, status, state, master_id, template_id, n_files,
       n_files_to_be_used, n_files_used, n_files_finished, n_files_failed, n_files_on_hold, n_files_waiting, n_events,
       n_events_to_be_used, n_events_used, attributes, storage_token, destination
  FROM task_datasets
 WHERE task_id = :task_id AND (:types::text[] IS NULL OR type = ANY(:types::text[])) ORDER BY dataset_id;

-- name: datasets_in_catalogue
-- How large datasets are, and where copies of them are, the fullest first: at so many places at most. Indexes of names and
-- of replicas by dataset.
-- told by: DETAILS
SELECT d.name, d.n_files AS n_files_made, d.n_bytes, d.state, coalesce(copies.places, '[]'::jsonb) AS places
  FROM catalogue.datasets d
  LEFT JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('storage', r.storage, 'n_files', r.n_files, 'n_bytes', r.n_bytes,
                                           'complete', r.complete) ORDER BY r.n_files DESC, r.storage) AS places
         FROM (SELECT * FROM catalogue.dataset_replicas WHERE dataset_id = d.dataset_id
                ORDER BY n_files DESC, storage LIMIT :most_places::int) r) copies ON true
 WHERE d.name = ANY(:names::text[]);

-- name: files_of_datasets
-- The first files of each dataset; with the state of the job that writes an output, whether a merge job has it, and how
-- many ranges of its events an input has. Index task_files_unit.
-- told by: DETAILS
SELECT f.*, j.status AS producer_status, coalesce(r.n_ranges, 1) AS n_ranges,
       coalesce(r.n_ranges_finished, 0) AS n_ranges_finished
  FROM unnest(:dataset_ids::bigint[]) AS d (dataset_id)
 CROSS JOIN LATERAL (
       SELECT file_id, dataset_id, type, lfn, scope, status, fsize, n_events, start_event, end_event, attempt_nr,
              max_attempt, failed_attempt, job_id, out_job_id, guid, checksum,
              boundary_id IS NOT NULL AND status IN ('picked', 'running') AS is_taken_for_merge, is_waiting
         FROM task_files f WHERE f.dataset_id = d.dataset_id ORDER BY file_id LIMIT :at_most::int) f
  LEFT JOIN jobs j ON j.job_id = f.out_job_id
  LEFT JOIN LATERAL (
       SELECT count(*) AS n_ranges, count(*) FILTER (WHERE one.status = 'finished') AS n_ranges_finished
         FROM task_files one WHERE f.start_event IS NOT NULL AND one.dataset_id = f.dataset_id AND one.lfn = f.lfn) r
    ON true
 ORDER BY f.dataset_id, f.file_id;

-- name: job_ids_of_task
-- All jobs of a task, those of the archive included. Index jobs_task.
-- told by: DETAILS
SELECT job_id FROM jobs WHERE task_id = :task_id
UNION SELECT job_id FROM archived_job_ids(ARRAY[:task_id::bigint]) ORDER BY job_id;

-- name: jobs_of_task
-- The newest jobs of a task, those of the archive included, with their text for the pilot while it is kept.
-- told by: DETAILS
SELECT j.job_id, j.task_id, j.status, j.queue, j.resource_type, j.gshare, j.user_name, j.prod_source_label, j.job_type,
       j.current_priority, j.core_count, j.attempt_number, j.creation_time, j.state_change_time, j.start_time, j.end_time,
       j.error_source, j.error_code, j.error_dialog, s.spec,
       (SELECT m.sub_status FROM job_set_jobs m WHERE m.job_id = j.job_id) AS job_sub_status
  FROM (SELECT job_id, task_id, status, queue, resource_type, gshare, user_name, prod_source_label, job_type,
               current_priority, core_count, attempt_number, creation_time, state_change_time, start_time, end_time,
               error_source, error_code, error_dialog
          FROM jobs WHERE task_id = :task_id AND (:statuses::text[] IS NULL OR status = ANY(:statuses::text[]))
        UNION ALL
        SELECT job_id, task_id, status, queue, resource_type, gshare, user_name, prod_source_label, job_type,
               current_priority, core_count, attempt_number, creation_time, state_change_time, start_time, end_time,
               error_source, error_code, error_dialog
          FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], :statuses::text[], :at_most::int)
         ORDER BY job_id DESC LIMIT :at_most::int) j
  LEFT JOIN job_specs s USING (job_id)
 ORDER BY j.job_id DESC;
