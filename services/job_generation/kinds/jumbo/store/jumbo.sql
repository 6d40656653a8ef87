-- Jumbo jobs of tasks, and the job sets that they take ranges of.

-- name: count_ready
-- Ranges that nobody has in the open job sets of a task. Index job_sets_open.
SELECT coalesce(sum(n_ready), 0)::bigint FROM job_sets WHERE task_id = :task_id AND status = 'open';

-- name: waits_for_a_site
-- Whether jumbo jobs of a task wait by themselves. Index waits_pkey.
SELECT EXISTS (SELECT FROM waits
                WHERE task_id = :task_id AND kind = 'queue' AND work = 'job sets' AND part = :part
                  AND woken_at IS NULL AND retry_at > orrery_now());

-- name: has_open_set
-- Whether a task has an open job set. Index job_sets_open.
SELECT EXISTS (SELECT FROM job_sets WHERE task_id = :task_id AND status = 'open');

-- name: first_set
-- The first open job set of a task with a range that nobody has: it stands for the input of jumbo jobs. Index
-- job_sets_open.
SELECT job_set_id, chunk_id FROM job_sets WHERE task_id = :task_id AND status = 'open' AND n_ready > 0
 ORDER BY job_set_id LIMIT 1;

-- name: queues_of_task
-- Each once: the queues that brokerage ranked for the open job sets of a task, in the order of the first that has it,
-- then those for jumbo jobs that passed its last brokerage. Indexes job_sets_open, tasks_pkey.
SELECT q ->> 0 AS queue, q ->> 1 AS resource_type FROM (
    SELECT e.q, s.job_set_id, e.place
      FROM job_sets s CROSS JOIN LATERAL jsonb_array_elements(s.queues) WITH ORDINALITY AS e (q, place)
     WHERE s.task_id = :task_id AND s.status = 'open'
    UNION ALL
    SELECT e.q, NULL, e.place
      FROM tasks t CROSS JOIN LATERAL jsonb_array_elements(t.jumbo_queues) WITH ORDINALITY AS e (q, place)
     WHERE t.task_id = :task_id) found
 GROUP BY 1, 2 ORDER BY min(job_set_id) NULLS LAST, min(place);

-- name: masters_of_open_sets
-- Input of open job sets with ranges that nobody has, as jumbo jobs are told it. Indexes job_sets_open, task_files_set.
SELECT f.file_id, f.dataset_id, f.type, f.lfn, coalesce(f.fsize, 0) AS fsize, f.n_events, f.start_event, f.end_event,
       f.first_event, f.boundary_id, f.lumi_block_nr, f.scope, f.guid, f.checksum, f.attempt_nr, f.ram_count,
       NULL::bigint AS job_id, f.out_job_id, f.avoided_site
  FROM job_sets s JOIN task_files f ON f.jobset_id = s.job_set_id JOIN task_datasets d ON d.dataset_id = f.dataset_id
 WHERE s.task_id = :task_id AND s.status = 'open' AND s.n_ready > 0 AND f.status = 'running' AND d.master_id IS NULL
   AND f.type IN ('input', 'pseudo_input', 'pp_input')
 ORDER BY f.file_id LIMIT :at_most;

-- name: insert_jumbo
-- New jumbo jobs.
INSERT INTO jumbo_jobs (job_id, task_id, queue, site)
SELECT w.job_id, :task_id, w.queue, w.site
  FROM unnest(:job_ids::bigint[], :queues::text[], :sites::text[]) AS w (job_id, queue, site);

-- name: jumbo_of_task
-- Jumbo jobs of a task, in their order: those whose end was not counted have a state. Index jumbo_jobs_task.
SELECT u.job_id, u.queue, u.site, u.n_processed, u.was_closed, CASE WHEN u.ended_at IS NULL THEN j.status END AS status
  FROM jumbo_jobs u LEFT JOIN jobs j USING (job_id) WHERE u.task_id = :task_id ORDER BY u.job_id;

-- name: sets_of_jumbo
-- Open sets of which these jumbo jobs have ranges, or of which some failed with them. Index event_ranges_job.
SELECT DISTINCT r.job_set_id
  FROM jumbo_jobs u JOIN event_ranges r ON r.task_id = :task_id AND r.job_id = u.job_id AND r.status IN (1, 2, 3, 7, 8)
  JOIN job_sets s ON s.job_set_id = r.job_set_id AND s.status = 'open'
 WHERE u.job_id = ANY(:job_ids::bigint[]) ORDER BY 1;

-- name: processed_by_jumbo
-- How many ranges of live rows a jumbo job processed. Index event_ranges_job.
SELECT count(*) FROM event_ranges WHERE task_id = :task_id AND job_id = :job_id AND status IN (3, 6, 9);

-- name: end_jumbo
-- The end of a jumbo job is counted.
UPDATE jumbo_jobs SET n_processed = :n_processed, was_closed = :was_closed, ended_at = orrery_now()
 WHERE job_id = :job_id AND ended_at IS NULL;

-- name: ranges_by_jumbo
-- Ranges of a set that jumbo jobs processed and that are not done. Index event_ranges_set.
SELECT r.event_range_id, r.status, r.attempt_nr FROM event_ranges r JOIN jumbo_jobs u USING (job_id)
 WHERE r.task_id = :task_id AND r.job_set_id = :job_set_id AND r.status = :finished::smallint
 ORDER BY r.event_range_id FOR NO KEY UPDATE OF r;

-- name: processed_sets
-- Open job sets of live tasks with jumbo jobs of which no range is being processed or waits for a job, in slices. Left
-- out are those that cannot go on: a pilot has one of their jobs, the end of one is about to be counted, or none of
-- them can stand for the set. Indexes tasks_live, job_sets_open, job_set_jobs_set, jumbo_jobs_task.
SELECT s.task_id, s.job_set_id
  FROM tasks t JOIN job_sets s ON s.task_id = t.task_id AND s.status = 'open' CROSS JOIN LATERAL (
       SELECT bool_or(j.status IN ('merging', 'waiting', 'assigned', 'activated')) AS has_first,
              bool_or(j.status IN ('pending', 'waiting', 'defined', 'assigned', 'activated', 'throttled')) AS has_queued,
              bool_or(j.status IN ('sent', 'starting', 'running', 'holding')
                      OR (j.status = 'merging' AND m.sub_status IS NULL)) AS has_busy
         FROM job_set_jobs m JOIN jobs j ON j.job_id = m.job_id AND j.results_applied_at IS NULL
        WHERE m.job_set_id = s.job_set_id AND m.role = 'consumer') c
 WHERE t.use_jumbo IS NOT NULL AND t.status = ANY(:statuses::text[]) AND s.wants IS NULL AND s.n_processing = 0
   AND (s.task_id, s.job_set_id) > (:after_task::bigint, :after_set::bigint)
   AND c.has_first AND NOT c.has_busy
   AND (s.n_ready = 0 OR NOT (c.has_queued OR EXISTS (
        SELECT FROM jumbo_jobs u JOIN jobs j USING (job_id) WHERE u.task_id = s.task_id AND u.ended_at IS NULL
           AND j.status IN ('pending', 'defined', 'assigned', 'activated', 'throttled', 'sent', 'starting', 'running'))))
 ORDER BY s.task_id, s.job_set_id LIMIT :at_most;

-- name: jobs_of_sets
-- The jobs of these sets. Index job_set_jobs_set.
SELECT job_id FROM job_set_jobs WHERE job_set_id = ANY(:set_ids::bigint[]) ORDER BY job_id;

-- name: note_queues
-- Queues for jumbo jobs that passed the brokerage of a task; a row that would not change is not written.
UPDATE tasks SET jumbo_queues = :queues
 WHERE task_id = :task_id AND jumbo_queues IS DISTINCT FROM :queues;

-- name: note_use
-- What column USEJUMBO says from now on; the row of the task is held.
UPDATE tasks SET use_jumbo = :use_jumbo, modification_time = orrery_now()
 WHERE task_id = :task_id AND use_jumbo IS DISTINCT FROM :use_jumbo;
