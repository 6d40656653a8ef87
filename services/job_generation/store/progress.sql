-- name: mark_dirty
-- Ends of jobs of these tasks were counted.
INSERT INTO dirty_tasks (task_id) SELECT unnest(:task_ids::bigint[]);

-- name: take_dirty
-- These tasks are settled: what was counted is seen from here on. Rows of who settles one at this moment are left to it.
-- Index dirty_tasks_task.
DELETE FROM dirty_tasks WHERE dirty_id IN (
    SELECT dirty_id FROM dirty_tasks WHERE task_id = ANY(:task_ids::bigint[]) FOR UPDATE SKIP LOCKED);

-- name: left_dirty
-- Tasks that nobody has settled for some time, those that wait longest first; they are told again.
UPDATE dirty_tasks SET told_at = orrery_now() WHERE dirty_id IN (
    SELECT dirty_id FROM dirty_tasks WHERE told_at < orrery_now() - make_interval(secs => :older_than_s::float8)
     ORDER BY told_at, dirty_id LIMIT :count FOR UPDATE SKIP LOCKED)
RETURNING task_id;

-- name: progress_of_tasks
-- How far tasks are, and whether input of theirs may be taken, is all processed, or their needs are to be measured. Input
-- of a dataset of which an ordinary chunk is offered is taken when that has come back, of a task that waits at its time.
-- Live jobs, and ended ones that were not counted, are counted up to a number. Indexes task_datasets_task, jobs_task,
-- jobs_unapplied, chunks_task.
SELECT t.task_id, t.status, t.split_rule, t.event_service, t.progress, t.failure_rate,
       coalesce(n.n_finished, 0) AS n_finished, coalesce(n.n_failed, 0) AS n_failed,
       t.nucleus IS NULL AND orrery_is_analysis(t.task_type, t.prod_source_label) AS is_told_alone, d.files_finished, d.files_failed, d.files_total,
       (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.status = ANY(:live::text[])
                               LIMIT :most::int) live)
     + (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.results_applied_at IS NULL
                                 AND j.status IN ('finished', 'failed', 'closed', 'cancelled') LIMIT :most::int) ended)
     + (SELECT count(*) FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered') AS live_jobs,
       d.has_work OR coalesce(n.n_finished >= n.measures_at, false) AS has_work
  FROM tasks t LEFT JOIN task_job_counts n USING (task_id)
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(n_files_finished), 0)::bigint AS files_finished,
              coalesce(sum(n_files_failed), 0)::bigint AS files_failed, coalesce(sum(n_files), 0)::bigint AS files_total,
              coalesce(bool_or(n_files_to_be_used < n_files OR status = 'ready'
                               AND (n_files > n_files_used
                                    AND (t.retry_at IS NULL OR t.retry_at <= orrery_now())
                                    AND NOT EXISTS (SELECT FROM chunks c
                                                     WHERE c.task_id = d.task_id AND c.status = 'offered'
                                                       AND c.dataset_id = d.dataset_id AND c.ram_mb IS NULL)
                                    OR n_files > 0 AND n_files <= n_files_finished AND state IS DISTINCT FROM 'open')),
                       false) AS has_work
         FROM task_datasets d
        WHERE task_id = t.task_id AND type IN ('input', 'pseudo_input', 'pp_input') AND type <> 'pp_input'
           AND status <> 'removed'
          AND (master_id IS NULL OR master_id = dataset_id)) d
 WHERE t.task_id = ANY(:task_ids::bigint[]) ORDER BY t.task_id;
