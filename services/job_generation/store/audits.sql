-- The audit of counters: of datasets by their files, of job sets by their ranges. One statement sees counters and contents
-- at one moment, and both change in one transaction: what differs in it is wrong.

-- name: position
-- How far the audit of a kind of counters is, held until the commit.
INSERT INTO counter_audits AS a (kind) VALUES (:kind) ON CONFLICT (kind) DO UPDATE SET kind = a.kind
RETURNING began_at, after_at, after_task, after_id;

-- name: move_on
-- So far is the audit of a kind of counters.
UPDATE counter_audits
   SET began_at = :began_at, after_at = :after_at, after_task = :after_task, after_id = :after_id, audited_at = orrery_now()
 WHERE kind = :kind;

-- name: next_datasets
-- The next datasets of tasks that did not end, with how many files they have and what their counters say; a task without
-- any has one row. Indexes tasks_in_turn, task_datasets_task.
SELECT t.task_id, NULL::timestamptz AS at, d.dataset_id AS id, coalesce(d.n_files, 0)::bigint AS n_contents,
       ARRAY[d.n_files_used, d.n_files_finished, d.n_files_failed]::bigint[] AS said
  FROM (SELECT task_id FROM tasks
         WHERE task_id >= :task_id::bigint
           AND (status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')) IS TRUE
         ORDER BY task_id LIMIT :most::int) t
  LEFT JOIN LATERAL (
       SELECT * FROM task_datasets
        WHERE task_id = t.task_id AND (task_id > :task_id::bigint OR dataset_id > :id::bigint)
          AND status <> 'removed' AND master_id IS NULL
          AND (type IN ('input', 'pseudo_input', 'pp_input') OR type IN ('output', 'log', 'trn_output', 'trn_log'))
        ORDER BY dataset_id LIMIT :most::int) d ON true
 ORDER BY t.task_id, d.dataset_id LIMIT :most::int;

-- name: next_ended_datasets
-- The same of tasks that ended, in the order of their ends. Indexes tasks_changed, task_datasets_task.
SELECT t.task_id, t.at, d.dataset_id AS id, coalesce(d.n_files, 0)::bigint AS n_contents,
       ARRAY[d.n_files_used, d.n_files_finished, d.n_files_failed]::bigint[] AS said
  FROM (SELECT task_id, state_change_time AS at FROM tasks
         WHERE (state_change_time, task_id) >= (:at::timestamptz, :task_id::bigint)
           AND state_change_time < orrery_now() - interval '1 minute'
           AND status IN ('done', 'finished', 'failed', 'broken', 'aborted')
         ORDER BY state_change_time, task_id LIMIT :most::int) t
  LEFT JOIN LATERAL (
       SELECT * FROM task_datasets
        WHERE task_id = t.task_id AND (task_id <> :task_id::bigint OR dataset_id > :id::bigint)
          AND status <> 'removed' AND master_id IS NULL
          AND (type IN ('input', 'pseudo_input', 'pp_input') OR type IN ('output', 'log', 'trn_output', 'trn_log'))
        ORDER BY dataset_id LIMIT :most::int) d ON true
 ORDER BY t.at, t.task_id, d.dataset_id LIMIT :most::int;

-- name: note_large
-- A dataset is counted in parts, beside the walk; one that is counted already stays as it is.
INSERT INTO counter_audit_parts (dataset_id, task_id, said) VALUES (:dataset_id, :task_id, :said)
ON CONFLICT (dataset_id) DO NOTHING;

-- name: next_large
-- The dataset that is counted in parts for longest.
SELECT dataset_id, task_id, said, counts, after_file_id, is_suspect, tried_at FROM counter_audit_parts
 ORDER BY noted_at, dataset_id LIMIT 1;

-- name: note_part
-- So far a dataset was counted, and what it has up to there.
UPDATE counter_audit_parts SET counts = :counts, after_file_id = :after_file_id WHERE dataset_id = :dataset_id;

-- name: suspect
-- The parts of a dataset are not what its counters said at the beginning or at the end, or between.
UPDATE counter_audit_parts SET counts = :counts, is_suspect = true WHERE dataset_id = :dataset_id;

-- name: try_whole
-- A dataset is about to be counted as a whole.
UPDATE counter_audit_parts SET tried_at = orrery_now() WHERE dataset_id = :dataset_id;

-- name: forget_large
-- A dataset is compared, or given up.
DELETE FROM counter_audit_parts WHERE dataset_id = :dataset_id;

-- name: counters_of
-- What the counters of a dataset say; NULL: there is none.
SELECT ARRAY[n_files_used, n_files_finished, n_files_failed]::bigint[] FROM task_datasets WHERE dataset_id = :dataset_id;

-- name: counter_differences
-- Of these datasets, those whose counters are not those of their files, with both. Index task_files_state.
SELECT d.task_id, d.dataset_id AS id,
       ARRAY[d.n_files_used, d.n_files_finished, d.n_files_failed, d.n_files_on_hold, d.n_files_waiting, d.n_events_used]
           AS counted,
       ARRAY[c.used, c.finished, c.failed, c.on_hold, c.waiting, c.events] AS found
  FROM task_datasets d
  CROSS JOIN LATERAL (SELECT d.type IN ('input', 'pseudo_input', 'pp_input') AS is_input) k
  CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE f.status IN ('picked', 'running', 'merging', 'finished', 'failed')
                                  OR f.status = 'prepared' AND NOT k.is_input) AS used,
              count(*) FILTER (WHERE f.status = 'finished') AS finished,
              count(*) FILTER (WHERE f.status = 'failed') AS failed,
              CASE WHEN k.is_input THEN d.n_files_on_hold ELSE count(*) FILTER (WHERE f.status = 'ready') END AS on_hold,
              CASE WHEN k.is_input THEN count(*) FILTER (WHERE f.is_waiting) ELSE d.n_files_waiting END AS waiting,
              CASE WHEN k.is_input AND d.n_events_used IS NOT NULL
                   THEN coalesce(sum(f.n_events) FILTER (WHERE f.status IN ('picked', 'running', 'merging', 'finished',
                                                                           'failed')), 0)::bigint
                   ELSE d.n_events_used END AS events
         FROM task_files f WHERE f.dataset_id = d.dataset_id) c
 WHERE d.dataset_id = ANY(:ids::bigint[])
   AND (d.n_files_used, d.n_files_finished, d.n_files_failed, d.n_files_on_hold, d.n_files_waiting, d.n_events_used)
       IS DISTINCT FROM (c.used, c.finished, c.failed, c.on_hold, c.waiting, c.events)
 ORDER BY d.dataset_id;

-- name: count_part
-- The next files of a dataset in the order of their ids, counted by state at one moment, and the last of them: so each is
-- counted once, whatever its state becomes; NULL: there are no more. Index task_files_state.
WITH next AS MATERIALIZED (
    SELECT s.status, n.file_id FROM unnest(:statuses::text[]) AS s (status)
     CROSS JOIN LATERAL (SELECT file_id FROM task_files
                          WHERE dataset_id = :dataset_id::bigint AND status = s.status AND file_id > :after_file_id::bigint
                          ORDER BY file_id LIMIT :most::int) n
), upto AS (
    SELECT min(last) AS file_id
      FROM (SELECT max(file_id) AS last FROM next GROUP BY status HAVING count(*) >= :most::int) full_states)
SELECT n.status, count(*) AS n_files, u.file_id AS upto FROM next n CROSS JOIN upto u
 WHERE n.file_id <= coalesce(u.file_id, n.file_id)
 GROUP BY n.status, u.file_id ORDER BY n.status;

-- name: correct_counters
-- Counters of datasets, which their caller holds, are those of their files from now on.
UPDATE task_datasets d
   SET n_files_used = c.used, n_files_finished = c.finished, n_files_failed = c.failed, n_files_on_hold = c.on_hold,
       n_files_waiting = c.waiting, n_events_used = c.events, modification_time = orrery_now()
  FROM unnest(:ids::bigint[], :used::bigint[], :finished::bigint[], :failed::bigint[], :on_hold::bigint[],
              :waiting::bigint[], :events::bigint[]) AS c (dataset_id, used, finished, failed, on_hold, waiting, events)
 WHERE d.dataset_id = c.dataset_id;

-- name: next_job_sets
-- The next job sets that are worked on and have ranges, by task. Index job_sets_open.
SELECT task_id, NULL::timestamptz AS at, job_set_id AS id, n_ranges::bigint AS n_contents, NULL::bigint[] AS said
  FROM job_sets
 WHERE (task_id, job_set_id) > (:task_id::bigint, :id::bigint) AND status IN ('open', 'merging') AND n_ranges > 0
 ORDER BY task_id, job_set_id LIMIT :most::int;

-- name: set_differences
-- Of these job sets, those whose counters are not those of their ranges, with both. Index event_ranges_set.
SELECT s.task_id, s.job_set_id AS id,
       ARRAY[s.n_ready, s.n_exhausted, s.n_processing, s.n_finished, s.n_done, s.n_merged, s.n_fatal]::bigint[] AS counted,
       ARRAY[c.ready, c.exhausted, c.processing, c.finished, c.done, c.merged, c.fatal] AS found
  FROM job_sets s CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE r.status = 0 AND r.attempt_nr > 0) AS ready,
              count(*) FILTER (WHERE r.status = 0 AND r.attempt_nr = 0) AS exhausted,
              count(*) FILTER (WHERE r.status IN (1, 2)) AS processing, count(*) FILTER (WHERE r.status = 3) AS finished,
              count(*) FILTER (WHERE r.status = 6) AS done, count(*) FILTER (WHERE r.status = 9) AS merged,
              count(*) FILTER (WHERE r.status = 8) AS fatal
         FROM event_ranges r WHERE r.task_id = s.task_id AND r.job_set_id = s.job_set_id) c
 WHERE s.job_set_id = ANY(:ids::bigint[]) AND s.status IN ('open', 'merging')
   AND (s.n_ready, s.n_exhausted, s.n_processing, s.n_finished, s.n_done, s.n_merged, s.n_fatal)
       IS DISTINCT FROM (c.ready, c.exhausted, c.processing, c.finished, c.done, c.merged, c.fatal)
 ORDER BY s.job_set_id;

-- name: lock_sets
-- Job sets are held until the commit, in order of id: nobody counts their ranges meanwhile.
SELECT job_set_id FROM job_sets WHERE job_set_id = ANY(:ids::bigint[]) ORDER BY job_set_id FOR NO KEY UPDATE;

-- name: correct_sets
-- Counters of job sets, which their caller holds, are those of their ranges from now on.
UPDATE job_sets s
   SET n_ready = c.ready, n_exhausted = c.exhausted, n_processing = c.processing, n_finished = c.finished,
       n_done = c.done, n_merged = c.merged, n_fatal = c.fatal
  FROM unnest(:ids::bigint[], :ready::int[], :exhausted::int[], :processing::int[], :finished::int[], :done::int[],
              :merged::int[], :fatal::int[])
       AS c (job_set_id, ready, exhausted, processing, finished, done, merged, fatal)
 WHERE s.job_set_id = c.job_set_id;
