-- Jumbo jobs of tasks, and the job sets that they take ranges of.

-- name: open_sets
-- What the open job sets of a task have for jumbo jobs; the first one stands for their input. Index job_sets_open.
SELECT count(*) AS n_sets, coalesce(sum(n_ready), 0)::bigint AS n_ready,
       min(job_set_id) FILTER (WHERE n_ready > 0) AS first_set_id,
       (array_agg(chunk_id ORDER BY job_set_id) FILTER (WHERE n_ready > 0))[1] AS chunk_id
  FROM job_sets WHERE task_id = :task_id AND status = 'open';

-- name: ranked_queues
-- The queues that brokerage ranked for the open job sets of a task, each once, in the order of the first that has it.
SELECT q ->> 0 AS queue, q ->> 1 AS resource_type
  FROM job_sets s CROSS JOIN LATERAL jsonb_array_elements(s.queues) WITH ORDINALITY AS e (q, place)
 WHERE s.task_id = :task_id AND s.status = 'open'
 GROUP BY 1, 2 ORDER BY min(s.job_set_id), min(e.place);

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
SELECT u.job_id, u.queue, u.site, u.n_processed, CASE WHEN u.ended_at IS NULL THEN j.status END AS status
  FROM jumbo_jobs u LEFT JOIN jobs j USING (job_id) WHERE u.task_id = :task_id ORDER BY u.job_id;

-- name: sets_of_jumbo
-- Sets of which these jumbo jobs have ranges. Index event_ranges_job.
SELECT DISTINCT r.job_set_id FROM jumbo_jobs u JOIN event_ranges r ON r.job_id = u.job_id AND r.status IN (1, 2, 3)
 WHERE u.job_id = ANY(:job_ids::bigint[]) ORDER BY 1;

-- name: processed_by_jumbo
-- How many ranges of live rows a jumbo job processed. Index event_ranges_job.
SELECT count(*) FROM event_ranges WHERE job_id = :job_id AND status IN (3, 6, 9);

-- name: end_jumbo
-- The end of a jumbo job is counted.
UPDATE jumbo_jobs SET n_processed = :n_processed, ended_at = orrery_now() WHERE job_id = :job_id AND ended_at IS NULL;

-- name: ranges_by_jumbo
-- Ranges of a set that jumbo jobs processed and that are not done. Index event_ranges_set.
SELECT r.event_range_id, r.status, r.attempt_nr FROM event_ranges r JOIN jumbo_jobs u USING (job_id)
 WHERE r.job_set_id = :job_set_id AND r.status = :finished::smallint
 ORDER BY r.event_range_id FOR NO KEY UPDATE OF r;

-- name: processed_sets
-- Open job sets of live tasks with jumbo jobs, whose ranges are all processed. Indexes tasks_live, job_sets_open.
SELECT s.task_id, s.job_set_id FROM tasks t JOIN job_sets s ON s.task_id = t.task_id AND s.status = 'open'
 WHERE t.use_jumbo IS NOT NULL AND t.status = ANY(:statuses::text[]) AND s.wants IS NULL
   AND s.n_ready = 0 AND s.n_processing = 0 AND s.n_finished + s.n_done > 0
 ORDER BY s.task_id, s.job_set_id LIMIT :at_most;

-- name: jobs_of_sets
-- The jobs of these sets. Index job_set_jobs_set.
SELECT job_id FROM job_set_jobs WHERE job_set_id = ANY(:set_ids::bigint[]) ORDER BY job_id;

-- name: note_use
-- What column USEJUMBO says from now on; the row of the task is held.
UPDATE tasks SET use_jumbo = :use_jumbo, modification_time = orrery_now()
 WHERE task_id = :task_id AND use_jumbo IS DISTINCT FROM :use_jumbo;
