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
-- The oldest rows that have a time of their own. Indexes audit_log_old, parked_messages_replayed.
-- told by: OPERATORS
SELECT 'audit_log' AS rule, (SELECT min(at) FROM audit_log) AS at
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
