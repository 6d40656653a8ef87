-- The audit of counters: of datasets by their files, of job sets by their ranges. One statement sees counters and contents
-- at one moment, and both change in one transaction: what differs in it is wrong.

-- name: position
-- How far the audit of a kind of counters is, held until the commit; and of a dataset that is counted in parts, what was
-- counted and what it said at the beginning.
INSERT INTO counter_audits AS a (kind) VALUES (:kind) ON CONFLICT (kind) DO UPDATE SET kind = a.kind
RETURNING after_id, parts;

-- name: move_on
-- So far is the audit of a kind of counters.
UPDATE counter_audits SET after_id = :after_id, parts = :parts, audited_at = orrery_now() WHERE kind = :kind;

-- name: next_datasets
-- The next datasets by id, with what their counters say, and whether these are audited: of tasks that are live or were a day
-- ago. Indexes task_datasets_pkey, tasks_pkey.
SELECT d.dataset_id, d.n_files, d.n_files_used, d.n_files_finished, d.n_files_failed, d.n_files_on_hold, d.type,
       d.status <> 'removed' AND d.master_id IS NULL
           AND (d.type IN ('input', 'pseudo_input', 'pp_input') OR d.type IN ('output', 'log', 'trn_output', 'trn_log'))
           AND (t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
                OR t.state_change_time > orrery_now() - interval '1 day') AS is_audited
  FROM (SELECT * FROM task_datasets WHERE dataset_id > :after::bigint ORDER BY dataset_id LIMIT :most::int) d
  CROSS JOIN LATERAL (SELECT status, state_change_time FROM tasks WHERE task_id = d.task_id LIMIT 1) t
 ORDER BY d.dataset_id;

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
-- The next files of a dataset in the order of their states, counted. Index task_files_state.
SELECT status, count(*) AS n_files, max(file_id) AS file_id FROM (
    SELECT status, file_id FROM task_files
     WHERE dataset_id = :dataset_id::bigint AND (status, file_id) > (:status::text, :file_id::bigint)
     ORDER BY status, file_id LIMIT :most::int) next
 GROUP BY status ORDER BY status;

-- name: correct_counters
-- Counters of datasets, which their caller holds, are those of their files from now on.
UPDATE task_datasets d
   SET n_files_used = c.used, n_files_finished = c.finished, n_files_failed = c.failed, n_files_on_hold = c.on_hold,
       n_files_waiting = c.waiting, n_events_used = c.events, modification_time = orrery_now()
  FROM unnest(:ids::bigint[], :used::bigint[], :finished::bigint[], :failed::bigint[], :on_hold::bigint[],
              :waiting::bigint[], :events::bigint[]) AS c (dataset_id, used, finished, failed, on_hold, waiting, events)
 WHERE d.dataset_id = c.dataset_id;

-- name: next_job_sets
-- The next job sets by id, with their ranges, and whether these are audited: of sets that are worked on. By primary key.
SELECT job_set_id, n_ranges, status IN ('open', 'merging') AND n_ranges > 0 AS is_audited FROM job_sets
 WHERE job_set_id > :after::bigint ORDER BY job_set_id LIMIT :most::int;

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
