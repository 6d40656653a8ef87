"""What users get in the end: queries for sentences that tell what is wrong."""

# What users get: whatever failed, a task that nobody ended early is done; the catalogue has the outputs of jobs that
# succeeded, each with its size, and no others but logs that pilots reported of jobs that were closed or killed.
RESULTS = """
SELECT format('task %s is %s although nobody ended it: %s', task_id, status, error_dialog) AS sentence
  FROM tasks t WHERE status <> 'done' AND NOT task_id = ANY($1)
   AND NOT (status IN ('broken', 'exhausted')
            AND $2 <= (SELECT coalesce(sum(b.n_failures), 0) FROM builds b WHERE b.task_id = t.task_id))
   AND NOT (status = 'failed' AND EXISTS (SELECT FROM task_files f WHERE f.task_id = t.task_id
                                             AND f.type = 'pp_input' AND f.attempt_nr >= f.max_attempt))
UNION ALL
SELECT format('output %s of task %s is finished and not in the catalogue', f.lfn, f.task_id)
  FROM task_files f JOIN task_datasets d USING (dataset_id)
 WHERE f.type IN ('output', 'log') AND f.status = 'finished'
   AND NOT EXISTS (SELECT FROM catalogue.files c JOIN catalogue.datasets k USING (dataset_id)
                    WHERE k.name = d.dataset_name AND c.lfn = f.lfn AND c.size_bytes = f.fsize)
UNION ALL
SELECT format('output %s is in the catalogue, but its job did not succeed: it is %s', c.lfn, f.status)
  FROM task_datasets d JOIN catalogue.datasets k ON k.name = d.dataset_name JOIN catalogue.files c
    ON c.dataset_id = k.dataset_id LEFT JOIN task_files f ON f.dataset_id = d.dataset_id AND f.lfn = c.lfn
 WHERE d.type IN ('output', 'log') AND f.status IS DISTINCT FROM 'finished'
   AND NOT (d.type = 'log' AND f.status IN ('failed', 'cancelled')
            AND EXISTS (SELECT FROM job_reports r WHERE r.job_id = f.out_job_id AND r.report -> 'outputs' ? f.lfn))
"""
# Of tasks with event service, builds and pre-processing: a finished file has each of its events merged once, but for
# those that its owner did without; no range and no job set is open, no library made twice, no returned parameter lost,
# no job live. Events are merged where the object store is that has them, or the task says why not.
RESULTS_OF_OTHER_KINDS = """
SELECT format('file %s of task %s is finished: of its %s events %s are merged and %s given up', f.file_id, f.task_id,
              f.n_events, c.merged, c.given_up) AS sentence
  FROM tasks t JOIN task_files f USING (task_id) JOIN task_datasets d USING (dataset_id) CROSS JOIN LATERAL (
       SELECT coalesce(sum(r.def_max_event_id - r.def_min_event_id + 1) FILTER (WHERE r.status = 9), 0) AS merged,
              coalesce(sum(r.def_max_event_id - r.def_min_event_id + 1) FILTER (WHERE r.status = 8), 0) AS given_up
         FROM event_ranges r WHERE r.task_id = f.task_id AND r.file_id = f.file_id) c
 WHERE t.event_service = 1 AND f.type = 'input' AND d.master_id IS NULL AND f.status = 'finished'
   AND (c.merged + c.given_up <> f.n_events OR c.given_up > 0 AND NOT EXISTS (
        SELECT FROM transition_log l WHERE l.task_id = t.task_id AND l.to_status = 'finishing'))
UNION ALL
SELECT format('range %s of task %s is in state %s, and its job set is %s', r.event_range_id, r.task_id, r.status,
              s.status)
  FROM event_ranges r JOIN job_sets s USING (job_set_id)
 WHERE r.status IN (0, 1, 2, 3) AND s.status NOT IN ('open', 'merging')
UNION ALL
SELECT format('job set %s of task %s is %s, and its task is %s', s.job_set_id, s.task_id, s.status, t.status)
  FROM job_sets s JOIN tasks t USING (task_id) WHERE s.status IN ('open', 'merging')
UNION ALL
SELECT format('events from %s of file %s are merged %s times', r.def_min_event_id, r.file_id, count(*))
  FROM event_ranges r WHERE r.status = 9 GROUP BY r.task_id, r.file_id, r.def_min_event_id HAVING count(*) > 1
UNION ALL
SELECT format('range %s of task %s failed with %s attempts left, and none followed', r.event_range_id, r.task_id,
              r.attempt_nr)
  FROM event_ranges r
 WHERE r.status = 7 AND r.attempt_nr > 0
   AND NOT EXISTS (SELECT FROM event_ranges n WHERE n.task_id = r.task_id AND n.file_id = r.file_id
                      AND n.job_process_id = r.job_process_id AND n.attempt_nr < r.attempt_nr)
UNION ALL
SELECT format('job %s merged events of object store %s at %s, and its task did not say why', j.job_id, o.store,
              j.queue)
  FROM job_set_jobs m JOIN (SELECT job_id, task_id, queue, status FROM jobs
                            UNION ALL SELECT job_id, task_id, queue, status FROM jobs_archive) j USING (job_id)
  JOIN tasks t ON t.task_id = j.task_id JOIN queues q ON q.queue = j.queue CROSS JOIN LATERAL (
       SELECT min(r.obj_store_id) AS store FROM event_ranges r
        WHERE r.task_id = m.task_id AND r.job_set_id = m.job_set_id AND r.status = 9
       HAVING count(DISTINCT r.obj_store_id) = 1 AND count(*) = count(r.obj_store_id)) o
 WHERE m.role = 'merge' AND j.status = 'finished' AND t.split_rule ? 'mergeEsOnOS'
   AND NOT coalesce(q.data -> 'objectstores', '[]') @> jsonb_build_array(jsonb_build_object('os_bucket_id', o.store))
   AND NOT EXISTS (SELECT FROM generation_history h WHERE h.task_id = j.task_id
                      AND h.reason LIKE format('job set %s is merged at a queue of its own%%', m.job_set_id))
UNION ALL
SELECT format('task %s has %s libraries of %s finished build jobs', b.task_id, b.n_libraries, j.n_jobs)
  FROM (SELECT task_id, count(file_id) AS n_libraries FROM builds GROUP BY task_id) b JOIN (
        SELECT task_id, count(*) AS n_jobs FROM every_job WHERE job_type = 'build' AND status = 'finished'
         GROUP BY task_id) j USING (task_id)
 WHERE b.n_libraries <> j.n_jobs
UNION ALL
SELECT format('task %s is done, and %s events per job are not the %s that its pre-processing returned', task_id,
              split_rule -> 'nEventsPerJob', $2::int)
  FROM tasks WHERE status = 'done' AND split_rule ? 'usePrePro' AND (split_rule -> 'nEventsPerJob')::int <> $2
UNION ALL
SELECT format('job %s of task %s is %s, and its task is %s', j.job_id, j.task_id, j.status, t.status)
  FROM jobs j JOIN tasks t USING (task_id) WHERE j.status = ANY($1)
"""
MERGED = """
SELECT concat_ws('-', task_id, job_id, file_id, job_process_id, attempt_nr) AS name FROM event_ranges WHERE status = 9
"""
# Of copies of jobs (useJobCloning) one counts: a job set is finished with one of them and failed with none, and of each
# input that is finished one of its jobs has stored its output.
RESULTS_OF_COPIES = """
SELECT format('job set %s of task %s is %s: %s of its %s copies are finished, %s stored output', s.job_set_id,
              s.task_id, s.status, c.n_finished, c.n_copies, c.n_stored) AS sentence
  FROM job_sets s JOIN tasks t USING (task_id) CROSS JOIN LATERAL (
       SELECT count(*) AS n_copies, count(*) FILTER (WHERE j.status = 'finished') AS n_finished,
              count(*) FILTER (WHERE EXISTS (
                  SELECT FROM task_files o WHERE o.out_job_id = m.job_id AND o.type = 'output' AND o.status = 'finished'
              )) AS n_stored
         FROM job_set_jobs m JOIN every_job j USING (job_id) WHERE m.job_set_id = s.job_set_id) c
 WHERE t.event_service = 3
   AND (c.n_finished <> (s.status = 'finished')::int OR c.n_stored > (s.status = 'finished')::int)
UNION ALL
SELECT format('input %s of task %s is finished, and %s copies of its jobs stored output', f.lfn, f.task_id, c.n_stored)
  FROM tasks t JOIN task_files f USING (task_id) JOIN task_datasets d USING (dataset_id) CROSS JOIN LATERAL (
       SELECT count(DISTINCT o.out_job_id) AS n_stored FROM job_files i JOIN task_files o ON o.out_job_id = i.job_id
        WHERE i.file_id = f.file_id AND o.type = 'output' AND o.status = 'finished') c
 WHERE t.event_service = 3 AND f.type = 'input' AND d.master_id IS NULL AND f.status = 'finished' AND c.n_stored <> 1
"""
