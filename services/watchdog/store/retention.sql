-- What is older than its rule of retention says. A statement that has the name of a rule drops some rows of those that
-- were found, and nothing once there are none left.

-- name: position_of
-- How far a rule is. The key of retention_positions.
SELECT at, id, key FROM retention_positions WHERE rule = :rule;

-- name: move_position
-- A rule has judged all before this, and dropped so many rows.
INSERT INTO retention_positions AS p (rule, at, id, key, n_dropped, dropped_at)
VALUES (:rule, :at, :id, :key, :n_rows, CASE WHEN :n_rows::bigint > 0 THEN orrery_now() END)
ON CONFLICT (rule) DO UPDATE
   SET at = excluded.at, id = excluded.id, key = excluded.key, n_dropped = p.n_dropped + excluded.n_dropped,
       dropped_at = coalesce(excluded.dropped_at, p.dropped_at);

-- name: tasks_to_judge
-- The next tasks by the time of their last change of state, and whether it was their end. Index tasks_changed.
SELECT task_id, state_change_time AS at, status IN ('done', 'finished', 'failed', 'broken', 'aborted') AS is_ended
  FROM tasks
 WHERE (state_change_time, task_id) > (:at::timestamptz, :id::bigint) AND state_change_time < :before
 ORDER BY state_change_time, task_id LIMIT :most;

-- name: hold_tasks
-- Those of these tasks that ended and nobody works on, until the commit.
SELECT task_id FROM tasks
 WHERE task_id = ANY(:task_ids::bigint[]) AND status IN ('done', 'finished', 'failed', 'broken', 'aborted')
 ORDER BY task_id FOR UPDATE SKIP LOCKED;

-- name: tasks_put_off
-- Tasks that are to be judged again. Index retention_put_off_due.
SELECT p.task_id, t.status IN ('done', 'finished', 'failed', 'broken', 'aborted') AS is_ended
  FROM retention_put_off p LEFT JOIN tasks t USING (task_id)
 WHERE p.rule = :rule AND p.due_at <= orrery_now() ORDER BY p.due_at, p.task_id LIMIT :most;

-- name: put_off
-- Rows of these tasks are kept for now.
INSERT INTO retention_put_off AS p (rule, task_id, day, due_at)
SELECT :rule, w.task_id, :day, :due_at FROM unnest(:task_ids::bigint[]) AS w (task_id)
ON CONFLICT (rule, task_id, day) DO UPDATE SET due_at = excluded.due_at;

-- name: judged
-- Tasks that had been put off and are done with.
DELETE FROM retention_put_off WHERE rule = :rule AND day = :day AND task_id = ANY(:task_ids::bigint[]);

-- name: tasks_with_jobs
-- Those of ended tasks that still have live jobs, or results that were not applied. Index jobs_task.
SELECT DISTINCT task_id FROM jobs WHERE task_id = ANY(:task_ids::bigint[]);

-- name: tasks_with_used_up_files
-- Those of which a file in an object store waits to be deleted by somebody. Indexes event_ranges_past_task,
-- event_ranges_id.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM event_ranges_past r WHERE r.task_id = w.task_id AND r.file_not_deleted = 'Y')
    OR EXISTS (SELECT FROM event_ranges r WHERE r.task_id = w.task_id AND r.file_not_deleted = 'Y');

-- name: tasks_with_past_ranges
-- Those of which a range of an earlier job set still names a file. Index event_ranges_past_task.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM event_ranges_past r WHERE r.task_id = w.task_id AND r.zip_row_id IS NOT NULL);

-- name: tasks_with_rows
-- Those of which other rules still have rows, or are to judge some again. Indexes chunks_task, job_retry_history_task,
-- generation_history_task, event_ranges_past_task, job_sets_ended, jumbo_jobs_task, archive_days_of_tasks_pkey.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM chunks c WHERE c.task_id = w.task_id
                  AND NOT (c.kind = 'scout' AND c.status = 'used' AND c.n_jobs > 0))
    OR EXISTS (SELECT FROM job_retry_history h WHERE h.task_id = w.task_id)
    OR EXISTS (SELECT FROM generation_history g WHERE g.task_id = w.task_id)
    OR EXISTS (SELECT FROM event_ranges_past r WHERE r.task_id = w.task_id)
    OR EXISTS (SELECT FROM refused_range_reports r WHERE r.task_id = w.task_id)
    OR EXISTS (SELECT FROM job_sets s WHERE s.task_id = w.task_id AND s.status IN ('finished', 'failed')
                  AND NOT EXISTS (SELECT FROM hpo_searches h WHERE h.job_set_id = s.job_set_id))
    OR EXISTS (SELECT FROM jumbo_jobs j WHERE j.task_id = w.task_id)
    OR EXISTS (SELECT FROM task_usage u WHERE u.task_id = w.task_id)
    OR EXISTS (SELECT FROM task_job_counts c WHERE c.task_id = w.task_id)
    OR EXISTS (SELECT FROM archive_days_of_tasks d JOIN archive_days k USING (day) WHERE d.task_id = w.task_id)
    OR EXISTS (SELECT FROM retention_put_off p WHERE p.task_id = w.task_id AND p.rule <> 'tasks');

-- name: tasks_under_way
-- Those with a command, a staging or a request to a catalogue that has not come to its end. A reading, or the result of a
-- pre-processing job, that is left of one that was aborted goes with it: so long ago, it is not tried again. Indexes
-- command_progress_pkey, reopenings_task, job_sets_open, stage_ins_once, catalogue_requests_of_task.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM command_progress c WHERE c.task_id = w.task_id)
    OR EXISTS (SELECT FROM reopenings r WHERE r.task_id = w.task_id)
    OR EXISTS (SELECT FROM dirty_tasks d WHERE d.task_id = w.task_id)
    OR EXISTS (SELECT FROM job_sets s WHERE s.task_id = w.task_id AND s.status IN ('open', 'merging'))
    OR EXISTS (SELECT FROM stage_ins s WHERE s.task_id = w.task_id AND s.status IN ('requested', 'active'))
    OR EXISTS (SELECT FROM catalogue_requests r WHERE r.task_id = w.task_id AND r.status IN ('open', 'moving'));

-- name: tasks_with_children
-- Those that are the parent of a task that is not archived: it reads what they make. Index tasks_parent.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM tasks t WHERE t.parent_tid = w.task_id AND t.task_id <> w.task_id);

-- name: tasks_read_by_others
-- Those that made a dataset, or a part of a container, that a task reads that has not ended: lost files are made again by
-- who made them. Of many readers no more are read than until one that has not ended. Indexes
-- task_datasets_task, task_datasets_name.
SELECT DISTINCT o.task_id FROM task_datasets o
  CROSS JOIN LATERAL (VALUES (o.dataset_name), (o.container_name)) made (name)
  CROSS JOIN LATERAL (
       SELECT FROM task_datasets i JOIN tasks t ON t.task_id = i.task_id
        WHERE i.dataset_name = made.name AND i.type = 'input' AND i.task_id <> o.task_id
          AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
        LIMIT 1) reader
 WHERE o.task_id = ANY(:task_ids::bigint[]) AND o.type IN ('output', 'log');

-- name: tasks_skipped_by_others
-- Those whose finished input others that are not archived leave out: they ask for it whenever they read their input.
-- Index tasks_skipping.
SELECT w.task_id FROM unnest(:task_ids::bigint[]) AS w (task_id)
 WHERE EXISTS (SELECT FROM tasks t WHERE t.split_rule ? 'skipFilesUsedBy'
                  AND t.split_rule -> 'skipFilesUsedBy' @> to_jsonb(w.task_id) AND t.task_id <> w.task_id);

-- name: live_tasks
-- Those that have not ended, or still have jobs.
SELECT t.task_id FROM tasks t
 WHERE t.task_id = ANY(:task_ids::bigint[])
   AND (t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
        OR EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id));

-- name: tasks_with_moving_files
-- Those for whose jobs something is to be moved, or was moved by a request that goes on: who ends it looks for it.
-- Indexes transfers_job, catalogue_requests_pkey.
SELECT DISTINCT x.task_id FROM transfers x
 WHERE x.job_id = ANY(:job_ids::bigint[])
   AND (x.status IN ('requested', 'active')
        OR EXISTS (SELECT FROM catalogue_requests r
                    WHERE r.request_id = x.request_id AND r.status IN ('open', 'moving')));

-- name: next_archive_day
-- The first day after one that has archived jobs.
SELECT min(day) FROM archive_days WHERE day > :day AND day < :before;

-- name: jobs_to_judge
-- The next jobs that a day archived. Index jobs_archive_job of that day.
SELECT job_id, task_id FROM jobs_archive
 WHERE archived_at >= :day AND archived_at < :next_day AND job_id > :id ORDER BY job_id LIMIT :most;

-- name: jobs_put_off
-- The task that waits longest to be judged again for jobs that a day archived, and how far it is.
SELECT task_id, day, status, job_id FROM retention_put_off
 WHERE rule = :rule AND due_at <= orrery_now() ORDER BY due_at, task_id, day LIMIT 1;

-- name: jobs_of_day
-- The next jobs of a task that a day archived. Index jobs_archive_task of that day.
SELECT job_id, status FROM jobs_archive
 WHERE task_id = :task_id AND archived_at >= :day AND archived_at < :next_day
   AND (status, job_id) > (:status::text, :job_id::bigint)
 ORDER BY status, job_id LIMIT :most;

-- name: move_put_off
-- How far the jobs of a task that was put off are.
UPDATE retention_put_off SET status = :status, job_id = :job_id
 WHERE rule = :rule AND task_id = :task_id AND day = :day;

-- name: first_day_in_use
-- The first day of the archive that somebody needs: a task that has not ended had jobs then, or rows of its jobs are still
-- to be judged. Indexes tasks_live, archive_days_of_tasks_pkey, retention_put_off_day.
SELECT min(day) FROM (
    SELECT d.day FROM archive_days k JOIN archive_days_of_tasks d USING (day) JOIN tasks t USING (task_id)
     WHERE k.day < :before AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
    UNION ALL
    SELECT day FROM retention_put_off WHERE day > 'epoch' AND day < :before) used;

-- name: forget_archive_days
-- The ranges of days whose jobs are gone.
DELETE FROM archive_days WHERE day < :before;

-- name: job_specs
-- What pilots were given.
DELETE FROM job_specs WHERE job_id = ANY(:job_ids::bigint[]);

-- name: transfers
-- What was moved for jobs. Index transfers_job.
DELETE FROM transfers WHERE transfer_id IN (
    SELECT transfer_id FROM transfers WHERE job_id = ANY(:job_ids::bigint[]) LIMIT :most);

-- name: job_reports
-- What pilots reported.
DELETE FROM job_reports WHERE job_id = ANY(:job_ids::bigint[]);

-- name: job_files
-- Which files jobs worked on: all of a job at once, for lost files are made again of all that their job read.
DELETE FROM job_files WHERE job_id IN (
    SELECT job_id FROM job_files WHERE job_id = ANY(:job_ids::bigint[]) ORDER BY job_id LIMIT :most);

-- name: chunks
-- Chunks that are over, but for those that became scouts: a task has them once. Index chunks_task.
DELETE FROM chunks WHERE chunk_id IN (
    SELECT chunk_id FROM chunks
     WHERE task_id = ANY(:task_ids::bigint[]) AND status IN ('used', 'returned')
       AND NOT (kind = 'scout' AND status = 'used' AND n_jobs > 0)
     LIMIT :most);

-- name: job_retry_history
-- Which job followed which. Index job_retry_history_task.
DELETE FROM job_retry_history h
 USING (SELECT new_job_id, old_job_id FROM job_retry_history WHERE task_id = ANY(:task_ids::bigint[]) LIMIT :most) old
 WHERE h.new_job_id = old.new_job_id AND h.old_job_id = old.old_job_id;

-- name: generation_history
-- What was decided about making jobs. Index generation_history_task.
DELETE FROM generation_history WHERE decision_id IN (
    SELECT decision_id FROM generation_history WHERE task_id = ANY(:task_ids::bigint[]) LIMIT :most);

-- name: event_ranges_past
-- Ranges of earlier job sets. Index event_ranges_past_task.
DELETE FROM event_ranges_past WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM event_ranges_past
     WHERE task_id = ANY(:task_ids::bigint[]) AND file_not_deleted IS DISTINCT FROM 'Y' LIMIT :most));

-- name: event_range_files
-- Files that no range names any more. Indexes event_range_files_task, event_ranges_job, event_ranges_past_task.
DELETE FROM event_range_files WHERE zip_row_id IN (
    SELECT z.zip_row_id FROM event_range_files z
     WHERE z.task_id = ANY(:task_ids::bigint[])
       AND NOT EXISTS (SELECT FROM event_ranges r WHERE r.task_id = z.task_id AND r.job_id = z.job_id
                          AND r.zip_row_id = z.zip_row_id)
       AND NOT EXISTS (SELECT FROM event_ranges_past r WHERE r.task_id = z.task_id AND r.zip_row_id = z.zip_row_id)
     LIMIT :most);

-- name: refused_range_reports
-- Reports of ranges that were refused.
DELETE FROM refused_range_reports WHERE task_id = ANY(:task_ids::bigint[]);

-- name: job_sets
-- Job sets with their jobs: a tenth of the rows, for a set has several. Index job_sets_ended.
WITH old AS MATERIALIZED (
    SELECT s.job_set_id FROM job_sets s
     WHERE s.task_id = ANY(:task_ids::bigint[]) AND s.status IN ('finished', 'failed')
       AND NOT EXISTS (SELECT FROM hpo_searches h WHERE h.job_set_id = s.job_set_id)
     LIMIT greatest(:most::int / 10, 1)),
copies AS (DELETE FROM stored_copies c USING old WHERE c.job_set_id = old.job_set_id),
jobs_of_sets AS (DELETE FROM job_set_jobs m USING old WHERE m.job_set_id = old.job_set_id)
DELETE FROM job_sets s USING old WHERE s.job_set_id = old.job_set_id;

-- name: jumbo_jobs
-- Which jobs were jumbo jobs. Index jumbo_jobs_task.
DELETE FROM jumbo_jobs WHERE job_id IN (
    SELECT job_id FROM jumbo_jobs WHERE task_id = ANY(:task_ids::bigint[]) LIMIT :most);

-- name: task_usage
-- What jobs of tasks used at queues.
DELETE FROM task_usage u
 USING (SELECT task_id, queue FROM task_usage WHERE task_id = ANY(:task_ids::bigint[]) LIMIT :most) old
 WHERE u.task_id = old.task_id AND u.queue = old.queue;

-- name: task_job_counts
-- How many jobs of tasks ended.
DELETE FROM task_job_counts WHERE task_id = ANY(:task_ids::bigint[]);

-- name: tasks
-- Tasks leave with all that is theirs in few rows, some at once, and are archived in the same statement; who opened one
-- again a moment ago has it. Files and ranges of events follow in slices (files_left and those after it). Indexes by task.
WITH old AS MATERIALIZED (
    SELECT task_id FROM tasks
     WHERE task_id = ANY(:task_ids::bigint[]) AND status IN ('done', 'finished', 'failed', 'broken', 'aborted')
     ORDER BY task_id LIMIT greatest(:most::int / 25, 1) FOR UPDATE),
archived AS (
    INSERT INTO tasks_archive (task_id, user_name, vo, status, task, task_parameters, datasets, outputs)
    SELECT t.task_id, t.user_name, t.vo, t.status, to_jsonb(t), p.task_parameters,
           coalesce((SELECT jsonb_agg(to_jsonb(d) - ARRAY['locked_by', 'locked_time'] ORDER BY d.dataset_id)
                       FROM task_datasets d WHERE d.task_id = t.task_id), '[]'),
           coalesce((SELECT jsonb_object_agg(d.dataset_name, to_jsonb(ARRAY(
                                SELECT o.file_name_template FROM output_templates o WHERE o.dataset_id = d.dataset_id)))
                       FROM task_datasets d
                      WHERE d.task_id = t.task_id AND d.type IN ('output', 'log', 'trn_output', 'trn_log')), '{}')
      FROM old JOIN tasks t USING (task_id) LEFT JOIN task_parameters p USING (task_id)),
parameters AS (DELETE FROM task_parameters p USING old WHERE p.task_id = old.task_id),
templates AS (DELETE FROM job_parameters_templates j USING old WHERE j.task_id = old.task_id),
outputs AS (DELETE FROM output_templates o USING old WHERE o.task_id = old.task_id),
libraries AS (DELETE FROM builds b USING old WHERE b.task_id = old.task_id),
memory AS (DELETE FROM raised_memory r USING old WHERE r.task_id = old.task_id),
passed AS (DELETE FROM passed_over p USING old WHERE p.task_id = old.task_id),
decisions AS (DELETE FROM generation_decisions g USING old WHERE g.task_id = old.task_id),
scouts AS (DELETE FROM chunks c USING old WHERE c.task_id = old.task_id),
results AS (DELETE FROM preprocessing_results r USING old WHERE r.task_id = old.task_id),
read_parts AS (DELETE FROM dataset_readings r USING old WHERE r.task_id = old.task_id),
readings AS (DELETE FROM input_readings r USING old WHERE r.task_id = old.task_id),
data AS (DELETE FROM task_datasets d USING old WHERE d.task_id = old.task_id)
DELETE FROM tasks t USING old WHERE t.task_id = old.task_id;

-- name: task_with_rows_left
-- An archived task of which files, or ranges of events, are still to be dropped. Index tasks_archive_left.
SELECT task_id FROM tasks_archive WHERE has_rows_left ORDER BY task_id LIMIT 1;

-- name: ranges_left
-- Ranges of events of an archived task. Index event_ranges_id.
DELETE FROM event_ranges WHERE task_id = :task_id AND event_range_id IN (
    SELECT event_range_id FROM event_ranges WHERE task_id = :task_id ORDER BY event_range_id LIMIT :most);

-- name: range_files_left
-- What they were written to. Index event_range_files_task.
DELETE FROM event_range_files WHERE zip_row_id IN (
    SELECT zip_row_id FROM event_range_files WHERE task_id = :task_id LIMIT :most);

-- name: points_left
-- Points of its search. Index hpo_points_pkey.
DELETE FROM hpo_points WHERE task_id = :task_id AND point_id IN (
    SELECT point_id FROM hpo_points WHERE task_id = :task_id ORDER BY point_id LIMIT :most);

-- name: jobs_of_sets_left
-- Jobs of its searches. Indexes job_sets_ended, job_set_jobs_set.
DELETE FROM job_set_jobs WHERE job_id IN (
    SELECT m.job_id FROM job_sets s JOIN job_set_jobs m USING (job_set_id)
     WHERE s.task_id = :task_id AND s.status IN ('finished', 'failed') LIMIT :most);

-- name: searches_left
-- Its searches, of which nothing else is left. Indexes hpo_searches_task, job_sets_ended.
WITH old AS MATERIALIZED (
    SELECT job_set_id FROM job_sets WHERE task_id = :task_id AND status IN ('finished', 'failed') LIMIT :most),
searches AS (DELETE FROM hpo_searches WHERE task_id = :task_id)
DELETE FROM job_sets s USING old WHERE s.job_set_id = old.job_set_id;

-- name: files_left
-- Files of an archived task go to the archive, those of a dataset that come next in one row. Index task_files_state.
WITH data AS MATERIALIZED (
    SELECT (d ->> 'dataset_id')::bigint AS dataset_id
      FROM tasks_archive a CROSS JOIN LATERAL jsonb_array_elements(a.datasets) d WHERE a.task_id = :task_id),
next AS MATERIALIZED (
    SELECT f.file_id FROM data CROSS JOIN LATERAL (
           SELECT file_id FROM task_files t WHERE t.dataset_id = data.dataset_id ORDER BY status, file_id LIMIT :most) f
     LIMIT :most),
gone AS (DELETE FROM task_files f USING next WHERE f.file_id = next.file_id RETURNING f.*)
INSERT INTO task_files_archive (task_id, first_file_id, dataset_id, n_files, files)
SELECT task_id, min(file_id), dataset_id, count(*),
       jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
           'file_id', file_id, 'lfn', lfn, 'scope', scope, 'status', status, 'type', type, 'fsize', fsize,
           'n_events', n_events, 'start_event', start_event, 'end_event', end_event, 'attempt_nr', attempt_nr,
           'max_attempt', max_attempt, 'failed_attempt', failed_attempt, 'job_id', job_id, 'out_job_id', out_job_id,
           'guid', guid, 'checksum', checksum)) ORDER BY file_id)
  FROM gone GROUP BY task_id, dataset_id;

-- name: days_left
-- The days on which its jobs were archived. Index archive_days_of_tasks_pkey.
DELETE FROM archive_days_of_tasks WHERE task_id = :task_id;

-- name: nothing_left
-- All rows of an archived task are gone.
UPDATE tasks_archive SET has_rows_left = false WHERE task_id = :task_id;

-- name: tasks_archive
-- Archived tasks: first their files, then themselves. Indexes tasks_archive_old, task_files_archive_pkey.
WITH old AS MATERIALIZED (
    SELECT task_id FROM tasks_archive
     WHERE archived_at < :before AND NOT has_rows_left ORDER BY archived_at, task_id LIMIT :most),
parts AS MATERIALIZED (
    SELECT f.task_id, f.first_file_id FROM old JOIN task_files_archive f USING (task_id) LIMIT :most),
files AS (
    DELETE FROM task_files_archive f USING parts p
     WHERE (f.task_id, f.first_file_id) = (p.task_id, p.first_file_id) RETURNING 1),
gone AS (
    DELETE FROM tasks_archive t USING old
     WHERE t.task_id = old.task_id AND NOT EXISTS (SELECT FROM task_files_archive f WHERE f.task_id = old.task_id)
    RETURNING 1)
SELECT 1 FROM files UNION ALL SELECT 1 FROM gone;

-- name: audit_log
-- Who gave which command. Index audit_log_old.
DELETE FROM audit_log WHERE audit_id IN (
    SELECT audit_id FROM audit_log WHERE at < :before ORDER BY at LIMIT :most);

-- name: parked_messages
-- Messages that were sent again. Index parked_messages_replayed.
DELETE FROM parked_messages WHERE parked_id IN (
    SELECT parked_id FROM parked_messages
     WHERE replayed_at IS NOT NULL AND replayed_at < :before ORDER BY replayed_at LIMIT :most);

-- name: queue_statistics
-- Counts of the next rows that are nothing; who changes one at this moment is not waited for. Index
-- queue_statistics_pkey.
WITH part AS MATERIALIZED (
    SELECT queue, resource_type, gshare, user_name, status, vo FROM queue_statistics
     WHERE (queue, resource_type, gshare, user_name, status, vo) > (:k1::text, :k2::text, :k3::text, :k4::text, :k5::text,
                                                                    :k6::text)
     ORDER BY queue, resource_type, gshare, user_name, status, vo LIMIT :most),
empty AS MATERIALIZED (
    SELECT s.queue, s.resource_type, s.gshare, s.user_name, s.status, s.vo FROM queue_statistics s
      JOIN part p USING (queue, resource_type, gshare, user_name, status, vo)
     WHERE s.n_jobs = 0 AND s.n_cores = 0 FOR UPDATE OF s SKIP LOCKED),
gone AS (
    DELETE FROM queue_statistics s USING empty e
     WHERE (s.queue, s.resource_type, s.gshare, s.user_name, s.status, s.vo)
           = (e.queue, e.resource_type, e.gshare, e.user_name, e.status, e.vo)
    RETURNING 1)
SELECT ARRAY[queue, resource_type, gshare, user_name, status, vo] AS key, (SELECT count(*) FROM gone) AS n_rows FROM part
 ORDER BY queue DESC, resource_type DESC, gshare DESC, user_name DESC, status DESC, vo DESC LIMIT 1;

-- name: sizes_of_rules
-- The bytes of the tables of each rule, partitions and indexes included.
SELECT w.rule, sum(pg_total_relation_size(c.oid))::bigint AS n_bytes
  FROM unnest(:rules::text[], :tables::text[]) AS w (rule, table_name)
  JOIN pg_class p ON p.oid = to_regclass(w.table_name)
  LEFT JOIN pg_inherits i ON i.inhparent = p.oid
  JOIN pg_class c ON c.oid = coalesce(i.inhrelid, p.oid)
 GROUP BY w.rule;

-- name: note_sizes
-- The last sizes of a day stay.
INSERT INTO retention_sizes (rule, day, n_bytes)
SELECT w.rule, (orrery_now() AT TIME ZONE 'UTC')::date, w.n_bytes
  FROM unnest(:rules::text[], :sizes::bigint[]) AS w (rule, n_bytes)
ON CONFLICT (rule, day) DO UPDATE SET n_bytes = excluded.n_bytes;

-- name: forget_sizes
-- Sizes of more than a month ago.
DELETE FROM retention_sizes WHERE day < (orrery_now() AT TIME ZONE 'UTC')::date - 31;

-- name: positions
-- What the rules have dropped so far, and when they last did.
-- told by: OPERATORS
SELECT rule, at, n_dropped, dropped_at FROM retention_positions;

-- name: latest_sizes
-- The size of each rule, and by how much it grew a day since it was first measured in the last month.
-- told by: OPERATORS
SELECT DISTINCT ON (rule) rule, n_bytes,
       ((n_bytes - first_value(n_bytes) OVER days) / nullif(day - first_value(day) OVER days, 0))::bigint AS bytes_a_day
  FROM retention_sizes WINDOW days AS (PARTITION BY rule ORDER BY day)
 ORDER BY rule, day DESC;

-- name: tasks_waiting
-- For how many tasks each rule keeps rows that it would drop.
-- told by: OPERATORS
SELECT rule, count(*) AS n_tasks, min(task_id) AS task_id FROM retention_put_off GROUP BY rule;

-- name: oldest_by_time
-- The oldest rows that have a time of their own. Indexes audit_log_old, parked_messages_replayed,
-- tasks_archive_old.
-- told by: OPERATORS
SELECT 'audit_log' AS rule, (SELECT min(at) FROM audit_log) AS at
UNION ALL SELECT 'tasks_archive', (SELECT min(archived_at) FROM tasks_archive)
UNION ALL SELECT 'parked_messages', (SELECT min(replayed_at) FROM parked_messages);

-- name: oldest_tasks
-- The time of the first task that a rule has not judged. Index tasks_changed.
-- told by: OPERATORS
SELECT w.rule, (SELECT min(t.state_change_time) FROM tasks t WHERE t.state_change_time > coalesce(p.at, 'epoch')) AS at
  FROM unnest(:rules::text[]) AS w (rule) LEFT JOIN retention_positions p USING (rule);

-- name: oldest_days
-- The first day of the archive whose jobs a rule has not judged.
-- told by: OPERATORS
SELECT w.rule, (SELECT min(d.day) FROM archive_days d
                 WHERE d.day > coalesce((p.at AT TIME ZONE 'UTC')::date, 'epoch')) AS day
  FROM unnest(:rules::text[]) AS w (rule) LEFT JOIN retention_positions p USING (rule);
