-- name: task_facts
-- What the explanation says of the task itself.
-- told by: DETAILS
SELECT task_id, task_name, user_name, vo, status, old_status, error_dialog, retry_at, nucleus, gshare, resource_type,
       current_priority, progress, failure_rate, state_change_time, creation_date, parent_tid, command, command_time,
       j.reason AS jumbo_reason, j.switched AS jumbo_switched, j.switched_at AS jumbo_switched_at
  FROM tasks LEFT JOIN jumbo_reasons j USING (task_id) WHERE task_id = :task_id;

-- name: deadline_of_task
-- By when the task is wanted, and when it will end.
-- told by: DETAILS
SELECT due_at, looked_at, earliest_at, latest_at, told FROM task_deadlines WHERE task_id = :task_id;

-- name: pace_of_task
-- How fast its input is processed: how many of its jobs finished since the hour before this one began (outcomes are counted
-- of all kinds together: as large a part of them as its last chunks had of jobs that process input), and the units that one
-- took. Indexes tasks_pkey, queue_outcomes_task, chunks_latest.
-- told by: DETAILS
WITH last AS MATERIALIZED (
    SELECT chunk_id, n_files, n_jobs FROM chunks
     WHERE task_id = :task_id AND status = 'used' AND kind IN ('scout', 'normal') ORDER BY chunk_id DESC LIMIT 100),
of_input AS (SELECT min(chunk_id) AS first_id, sum(n_files)::float8 AS n_files, sum(n_jobs)::float8 AS n_jobs FROM last),
of_all AS (
    SELECT sum(n_jobs)::float8 AS n_jobs FROM chunks
     WHERE task_id = :task_id AND status = 'used' AND chunk_id >= (SELECT first_id FROM of_input))
SELECT orrery_now() AS now, start_time, date_trunc('hour', orrery_now()) - interval '1 hour' AS lately_since,
       (SELECT coalesce(sum(n_finished), 0) FROM queue_outcomes
         WHERE task_id = :task_id AND hour >= date_trunc('hour', orrery_now()) - interval '1 hour')::float8
           * coalesce(i.n_jobs / nullif(a.n_jobs, 0), 1) AS n_jobs_lately,
       i.n_files / nullif(i.n_jobs, 0) AS units_per_job
  FROM tasks CROSS JOIN of_input i CROSS JOIN of_all a WHERE task_id = :task_id;

-- name: notices_of_task
-- What its owner was told, or could not be told, the latest first. Index notices_task_id_cause_since_key.
-- told by: DETAILS
SELECT cause, since, status, attempts, next_at, ended_at, reason FROM notices
 WHERE task_id = :task_id ORDER BY notice_id DESC LIMIT 5;

-- name: passed_over_of_task
-- Why the watchdog did not send the task to an empty queue (queue filler), or withhold it, when it last looked at it, and
-- since when each look ended so. What it looks at no more is not told, where the task shows that. Index passed_over_pkey.
-- told by: DETAILS
SELECT p.action, p.reason, p.since FROM passed_over p JOIN tasks t USING (task_id)
 WHERE p.task_id = :task_id AND t.status IN ('ready', 'scouting', 'running')
   AND (p.action <> 'queue_filler'
        OR t.status <> 'scouting' AND coalesce(t.site, '') = '' AND EXISTS (SELECT FROM empty_queues))
UNION ALL
SELECT 'queue_filler', CASE WHEN e.is_any THEN 'no queue has been nearly empty for long enough, or its turn has not come'
                            ELSE 'no queue is known to be nearly empty' END, NULL
  FROM tasks t CROSS JOIN (SELECT EXISTS (SELECT FROM empty_queues) AS is_any) e
 WHERE t.task_id = :task_id AND t.prod_source_label = 'managed' AND t.event_service = 0 AND coalesce(t.site, '') = ''
   AND t.status IN ('ready', 'running')
   AND NOT (e.is_any AND EXISTS (SELECT FROM passed_over p WHERE p.task_id = t.task_id AND p.action = 'queue_filler'))
 ORDER BY action;

-- name: unused_input
-- Input datasets of which files were left out when they were read. Index task_datasets_task.
-- told by: DETAILS
SELECT dataset_name, coalesce(n_older, 0) AS n_older, coalesce(n_off_index, 0) AS n_off_index,
       coalesce(n_not_made, 0) AS n_not_made FROM task_datasets
 WHERE task_id = :task_id AND type = 'input' AND (n_older > 0 OR n_off_index > 0 OR n_not_made > 0) ORDER BY dataset_id;

-- name: decisions_of_task
-- The last about its nucleus and the last about its chunks, and besides the last about each kind of chunk: many of one
-- kind do not hide those of another. What holds the task now, the last of its kind that found no place, comes first.
-- told by: DETAILS
WITH ranked AS (
    SELECT d.decision_id, c.kind AS chunk_kind,
           row_number() OVER (PARTITION BY d.kind ORDER BY d.decision_id DESC) AS place,
           row_number() OVER (PARTITION BY d.kind, c.kind ORDER BY d.decision_id DESC) AS place_in_kind
      FROM brokerage_decisions d LEFT JOIN chunks c USING (chunk_id)
     WHERE d.task_id = :task_id AND (:chunk_id::bigint IS NULL OR d.chunk_id = :chunk_id OR d.kind = 'task'))
SELECT d.decision_id, d.kind, r.chunk_kind, d.task_id, d.chunk_id, d.decided_at, d.plugin, d.seed, d.world_version,
       d.outcome, d.chosen, d.retry_at, d.summary, d.names, d.codes, d.found, d.wanted, d.weights, d.terms, d.checks
  FROM ranked r JOIN brokerage_decisions d USING (decision_id)
 WHERE r.place <= :at_most::int OR r.place_in_kind = 1
 ORDER BY (r.place_in_kind = 1 AND d.outcome = 'none') DESC, d.decision_id DESC;

-- name: named_decisions
-- Decisions about a task by their ids. By primary key.
-- told by: DETAILS
SELECT decision_id, kind, names, codes, found, wanted, weights, terms, checks FROM brokerage_decisions
 WHERE task_id = :task_id AND decision_id = ANY(:decision_ids::bigint[]);

-- name: waiting_parts
-- What each part of a task waits for that found no queue, no nucleus or no room in its share, with the decision about it.
-- Indexes waits_pkey, chunks_pkey.
-- told by: DETAILS
SELECT w.kind AS waits_for, w.work, w.part, w.since, w.retry_at, w.n_futile, w.not_before, w.woken_by, w.causes,
       d.decision_id, d.outcome, d.names, d.codes, d.found, d.wanted, d.weights, d.terms, d.checks
  FROM waits w JOIN tasks t USING (task_id) LEFT JOIN chunks c ON c.chunk_id = w.chunk_id
  LEFT JOIN brokerage_decisions d ON d.decision_id = w.decision_id
 WHERE w.task_id = :task_id AND w.placed_at IS NULL AND w.retry_at > orrery_now()
   AND CASE w.work WHEN 'merge' THEN c.retry_at > orrery_now() WHEN 'job sets' THEN t.co_jumbo_retry_at > orrery_now()
                   ELSE t.retry_at > orrery_now() OR c.retry_at > orrery_now() END
 ORDER BY w.since, w.work, w.part;

-- name: stage_ins_of_task
-- Input of the task that is staged from tape, or is to be. Index stage_ins_once.
-- told by: DETAILS
SELECT dataset_name, source_storage, destination_storage, status, n_staged, n_files, waits_for, requested_at
  FROM stage_ins WHERE task_id = :task_id AND status IN ('requested', 'active') ORDER BY stage_in_id;

-- name: last_decision_about_merging
-- The last about a merge chunk of the task.
-- told by: DETAILS
SELECT d.decision_id, d.kind, c.kind AS chunk_kind, d.task_id, d.chunk_id, d.decided_at, d.plugin, d.seed,
       d.world_version, d.outcome, d.chosen, d.retry_at, d.summary, d.names, d.codes, d.found, d.wanted, d.weights,
       d.terms, d.checks
  FROM brokerage_decisions d JOIN chunks c USING (chunk_id)
 WHERE d.task_id = :task_id AND c.kind = 'merge'
 ORDER BY d.decision_id DESC LIMIT 1;

-- name: generation_decision
-- Why jobs were made of the task, or not, when that was looked at last.
-- told by: DETAILS
SELECT decided_at, outcome, reason, numbers, retry_at FROM generation_decisions WHERE task_id = :task_id;

-- name: generation_history
-- The last decisions about its generation, the latest first. Index generation_history_task.
-- told by: DETAILS
SELECT first_at, last_at, n_times, outcome, reason, numbers FROM generation_history
 WHERE task_id = :task_id ORDER BY decision_id DESC LIMIT 20;

-- name: retry_decisions_of_task
-- Which rules decided about its failed jobs, the most frequent first, with the latest as an example.
-- told by: DETAILS
SELECT rule_id, action, is_active, count(*) AS n_jobs, (array_agg(reason ORDER BY job_id DESC))[1] AS reason
  FROM (SELECT * FROM retry_decisions WHERE task_id = :task_id LIMIT :count_to::bigint) counted
 GROUP BY rule_id, action, is_active ORDER BY count(*) DESC, rule_id LIMIT 5;

-- name: retry_decision_of_job
-- Which rule decided about a failed job.
-- told by: DETAILS
SELECT rule_id, action, is_active, reason, decided_at FROM retry_decisions WHERE job_id = :job_id;

-- name: refused_ranges_of_task
-- Reports of its event ranges that changed nothing. Index refused_range_reports_pkey.
-- told by: DETAILS
SELECT n_reports, reason, last_at FROM refused_range_reports WHERE task_id = :task_id;

-- name: fatal_ranges_of_task
-- Ranges that failed for good, their job sets, and why the last set failed that had some. Index job_sets_fatal.
-- told by: DETAILS
SELECT sum(n_fatal)::bigint AS n_ranges, count(*) AS n_sets, count(*) FILTER (WHERE status = 'failed') AS n_failed,
       (array_agg(reason ORDER BY ended_at DESC) FILTER (WHERE status = 'failed'))[1] AS reason
  FROM job_sets WHERE task_id = :task_id AND n_fatal > 0 HAVING count(*) > 0;

-- name: messages_of_task
-- Messages about the task that a service could not handle: those that come again, and those that were put aside.
-- told by: DETAILS
SELECT consumer, reason, attempts, retry_at, NULL::timestamptz AS parked_at, created_at AS at FROM deferred_messages
 WHERE task_ids <> '{}' AND task_ids @> ARRAY[:task_id::bigint]
UNION ALL
SELECT consumer, reason, NULL, NULL, parked_at, parked_at FROM parked_messages
 WHERE task_ids <> '{}' AND replayed_at IS NULL AND task_ids @> ARRAY[:task_id::bigint]
 ORDER BY at DESC LIMIT 5;

-- name: history_of_task
-- Changes of the task itself and of its order (priority and share), the latest first.
-- told by: DETAILS
SELECT at, from_status, to_status, actor, reason, cause_event_id FROM transition_log
 WHERE task_id = :task_id AND entity IN ('task', 'order') ORDER BY at DESC LIMIT :at_most::int;

-- name: orders_of_task
-- What services decided last about the priority and share of a task, and about where it may go. Index
-- transition_log_orders.
-- told by: DETAILS
SELECT DISTINCT ON (split_part(to_status, ' ', 1)) at, to_status, reason FROM transition_log
 WHERE task_id = :task_id AND entity = 'order' ORDER BY split_part(to_status, ' ', 1), at DESC;

-- name: open_chunks
-- The last chunks of a task. Index chunks_latest.
-- told by: DETAILS
SELECT chunk_id, kind, status, n_files, n_events, queue, offered_at, reason FROM chunks
 WHERE task_id = :task_id ORDER BY chunk_id DESC LIMIT 5;

-- name: queues_of_task
-- Live jobs of the task by queue and state, of each state at most so many (NULL: all). Index jobs_task.
-- told by: DETAILS
SELECT queue, resource_type, status, count(*) AS n_jobs
  FROM unnest(:statuses::text[]) AS wanted (status)
 CROSS JOIN LATERAL (
        SELECT queue, resource_type FROM jobs j
         WHERE (j.task_id, j.status) >= (:task_id::bigint, wanted.status)
           AND (j.task_id, j.status) <= (:task_id::bigint, wanted.status)
         ORDER BY j.task_id, j.status LIMIT :count_to::bigint) counted
 GROUP BY queue, resource_type, status ORDER BY queue, resource_type, status;

-- name: failures_of_task
-- What its jobs died of, the most frequent first, and at which queues most of these. Texts that differ only in names,
-- numbers and quotations are of one kind (orrery_error_kind): one text is shown, and one job. At most so many are looked at
-- (NULL: all).
-- told by: DETAILS
WITH failed AS (
        SELECT error_source, error_code, coalesce(error_dialog, '') AS error_dialog, queue, count(*) AS n_jobs,
               max(job_id) AS job_id
          FROM (
                (SELECT job_id, error_source, error_code, error_dialog, queue FROM jobs
                  WHERE task_id = :task_id AND status = 'failed' LIMIT :count_to::int)
                UNION ALL
                SELECT job_id, error_source, error_code, error_dialog, queue
                  FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], ARRAY['failed'], :count_to::int)) j
         GROUP BY 1, 2, 3, 4),
    texts AS (SELECT error_dialog, orrery_error_kind(error_dialog) AS kind
                FROM (SELECT DISTINCT error_dialog FROM failed) once),
    told AS (SELECT * FROM failed JOIN texts USING (error_dialog)),
    kinds AS (
        SELECT error_source, error_code, kind, left((array_agg(error_dialog ORDER BY n_jobs DESC, error_dialog))[1], 200)
               AS error_dialog, sum(n_jobs)::bigint AS n_jobs, count(DISTINCT error_dialog) AS n_texts,
               count(DISTINCT queue) AS n_queues, max(job_id) AS job_id
          FROM told GROUP BY error_source, error_code, kind
         ORDER BY sum(n_jobs) DESC, error_source, error_code LIMIT 5)
SELECT k.error_source, k.error_code, k.error_dialog, k.n_jobs, k.n_texts, k.n_queues, k.job_id, places.queues
  FROM kinds k
 CROSS JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_object('queue', queue, 'n_jobs', n_jobs) ORDER BY n_jobs DESC, queue) AS queues
          FROM (SELECT queue, sum(n_jobs)::bigint AS n_jobs FROM told t
                 WHERE (t.error_source, t.error_code, t.kind) IS NOT DISTINCT FROM (k.error_source, k.error_code, k.kind)
                 GROUP BY queue ORDER BY sum(n_jobs) DESC, queue LIMIT 5) most) places
 ORDER BY k.n_jobs DESC, k.error_source, k.error_code;

-- name: taken_back_of_task
-- Why the system took jobs back before they ran, the most frequent cause first: their input is made into others. At most so
-- many are looked at (NULL: all). Indexes jobs_task, jobs_archive_task.
-- told by: DETAILS
SELECT error_source, error_code, error_dialog, count(*) AS n_jobs, max(end_time) AS last_at FROM (
        (SELECT error_source, error_code, left(error_dialog, 300) AS error_dialog, end_time FROM jobs
          WHERE task_id = :task_id AND status = 'closed' LIMIT :count_to::int)
        UNION ALL
        SELECT error_source, error_code, left(error_dialog, 300), end_time
          FROM archived_jobs_of_tasks(ARRAY[:task_id::bigint], ARRAY['closed'], :count_to::int)) j
 WHERE error_source = 'watchdog' GROUP BY 1, 2, 3 ORDER BY count(*) DESC, error_code, error_dialog LIMIT 5;

-- name: job_facts
-- A job, live or archived, and its task's owner and VO.
-- told by: DETAILS
SELECT found.*, t.user_name AS owner, t.vo,
       (SELECT m.sub_status FROM job_set_jobs m WHERE m.job_id = found.job_id) AS sub_status FROM (
SELECT job_id, task_id, chunk_id, status, queue, resource_type, gshare, user_name, prod_source_label, job_type,
       current_priority, core_count, attempt_number, creation_time, state_change_time, start_time, end_time,
       heartbeat_at, worker, command, error_source, error_code, error_dialog, shape_id, order_key_id, false AS archived
  FROM jobs WHERE job_id = :job_id
UNION ALL
SELECT job_id, task_id, chunk_id, status, queue, resource_type, gshare, user_name, prod_source_label, job_type,
       current_priority, core_count, attempt_number, creation_time, state_change_time, start_time, end_time,
       heartbeat_at, worker, command, error_source, error_code, error_dialog, shape_id, 0, true
  FROM archived_jobs(ARRAY[:job_id::bigint])
LIMIT 1) found LEFT JOIN tasks t USING (task_id);

-- name: asked_of_time_outs
-- What time-out rules ask about a live job beside its row, and what time it is.
-- told by: DETAILS
SELECT orrery_now() AS now, (SELECT grace_until FROM watch_runs WHERE watch = 'jobs') AS grace_until,
       stays, own_stage_out, producers_gone, report_waits, in_job_set, working_group, is_bound, activated_at,
       taken_at + make_interval(secs => :back_s) AS came_back_until,
       (SELECT moved_at FROM orrery_groups_moved(ARRAY[f.task_id], ARRAY[f.chunk_id], ARRAY[f.queue],
                                                 orrery_now() - make_interval(hours => 3))) AS group_moved_at
  FROM orrery_asked_of_job(:job_id, orrery_now(), :es_priority,
                           orrery_now() - make_interval(secs => :back_s)) f;

-- name: history_of_job
-- Changes of a job, alone or in a batch, the latest first. Indexes transition_log_entity, transition_log_batches.
-- told by: DETAILS
SELECT at, from_status, to_status, actor, reason, cause_event_id
  FROM (SELECT * FROM transition_log WHERE entity = 'job' AND entity_id = :job_id
        UNION ALL
        SELECT * FROM transition_log WHERE entity = 'job' AND entity_ids @> ARRAY[:job_id::bigint]) logged
 ORDER BY at DESC LIMIT :at_most::int;

-- name: chain_of_job
-- Jobs that this one follows (place below 0) and that follow it (above 0), by retries and merges, the nearest first; live
-- and archived. From each job, and in each step, at most as many are followed as are told. Indexes
-- job_retry_history_pkey, job_retry_history_old.
-- told by: DETAILS
WITH RECURSIVE earlier AS (
        (SELECT old_job_id AS job_id, relation_type, -1 AS place FROM job_retry_history
          WHERE new_job_id = :job_id LIMIT :at_most::int)
        UNION
        SELECT * FROM (
               SELECT h.old_job_id, h.relation_type, e.place - 1
                 FROM earlier e
                CROSS JOIN LATERAL (SELECT old_job_id, relation_type FROM job_retry_history
                                     WHERE new_job_id = e.job_id LIMIT :at_most::int) h
                WHERE e.place > -:most_steps::int LIMIT :at_most::int) nearest),
    later AS (
        (SELECT new_job_id AS job_id, relation_type, 1 AS place FROM job_retry_history
          WHERE old_job_id = :job_id LIMIT :at_most::int)
        UNION
        SELECT * FROM (
               SELECT h.new_job_id, h.relation_type, l.place + 1
                 FROM later l
                CROSS JOIN LATERAL (SELECT new_job_id, relation_type FROM job_retry_history
                                     WHERE old_job_id = l.job_id LIMIT :at_most::int) h
                WHERE l.place < :most_steps::int LIMIT :at_most::int) nearest),
    chain AS (
        (SELECT * FROM earlier ORDER BY place DESC, job_id DESC LIMIT :at_most::int)
        UNION ALL
        (SELECT * FROM later ORDER BY place, job_id LIMIT :at_most::int)),
    known AS MATERIALIZED (
        SELECT job_id, status, queue, attempt_number, end_time, error_dialog FROM jobs
         WHERE job_id = ANY(ARRAY(SELECT job_id FROM chain))
        UNION ALL
        SELECT job_id, status, queue, attempt_number, end_time, error_dialog
          FROM archived_jobs(ARRAY(SELECT job_id FROM chain)))
SELECT c.job_id, c.relation_type, c.place, j.status, j.queue, j.attempt_number, j.end_time, j.error_dialog
  FROM chain c LEFT JOIN known j USING (job_id)
 ORDER BY c.place, c.job_id;

-- name: siblings_of_job
-- Jobs that were made of the same chunk, those with the nearest ids, live and archived: jobs of a chunk are made together.
-- told by: DETAILS
SELECT job_id, status FROM (
        SELECT job_id, status, chunk_id FROM jobs WHERE job_id BETWEEN :job_id::bigint - :near::int AND :job_id::bigint + :near::int
        UNION ALL
        SELECT job_id, status, chunk_id
          FROM archived_jobs(ARRAY(SELECT generate_series(:job_id::bigint - :near::int, :job_id::bigint + :near::int)))) j
 WHERE chunk_id = :chunk_id AND job_id <> :job_id ORDER BY abs(job_id - :job_id) LIMIT :at_most::int;

-- name: ahead_of_job
-- Activated jobs of the same queue and share that are served first; counting stops at the limit.
-- told by: DETAILS
SELECT count(*) FROM (
        SELECT FROM jobs WHERE queue = :queue AND gshare = :gshare AND status = 'activated'
           AND ((-current_priority), job_id) < (-(:priority::int), :job_id::bigint) LIMIT :at_most::int) ahead;

-- name: ahead_in_lane
-- Those of them that require the same, too: one lane of the dispatcher. Index jobs_lane.
-- told by: DETAILS
SELECT count(*) FROM (
        SELECT FROM jobs WHERE queue = :queue AND gshare = :gshare AND order_key_id = :order_key_id
           AND shape_id = :shape_id AND status = 'activated'
           AND ((-current_priority), job_id) < (-(:priority::int), :job_id::bigint) LIMIT :at_most::int) ahead;

-- name: shares_at_queue
-- The tree of shares: what each uses everywhere, and its jobs that wait, everywhere and at the queue.
-- told by: DETAILS
SELECT s.gshare, s.value, s.parent, s.correction_factor, s.stretchable,
       coalesce(sum(q.n_cores) FILTER (WHERE q.status IN ('sent', 'running')), 0)::float8 AS used_cores,
       greatest(coalesce(sum(q.n_jobs) FILTER (WHERE q.status = 'activated'), 0), 0)::bigint AS n_queued,
       greatest(coalesce(sum(q.n_jobs) FILTER (WHERE q.status = 'activated' AND q.queue = :queue), 0), 0)::bigint
           AS n_here
  FROM shares s LEFT JOIN queue_statistics q USING (gshare)
 GROUP BY s.gshare ORDER BY s.position;

-- name: starts_at_queue
-- Jobs of the queue that were taken within the last hour.
-- told by: DETAILS
SELECT count(*) FROM jobs WHERE queue = :queue AND start_time > orrery_now() - interval '1 hour';

-- name: activity_of_queue
-- Whether pilots ask for jobs of a queue, and how many wait and run there.
-- told by: DETAILS
SELECT a.last_pilot_at, a.last_job_start_at, a.running_workers, a.submitted_workers,
       (SELECT coalesce(sum(n_jobs), 0)::bigint FROM queue_statistics s
         WHERE s.queue = wanted.queue AND s.status = 'activated') AS activated,
       (SELECT coalesce(sum(n_jobs), 0)::bigint FROM queue_statistics s
         WHERE s.queue = wanted.queue AND s.status IN ('sent', 'starting', 'running')) AS running
  FROM (SELECT :queue::text AS queue) wanted LEFT JOIN queue_activity a USING (queue);

-- name: progress_of_job
-- What the pilot of a running job said last. By primary key.
-- told by: DETAILS
SELECT progress, reported_at FROM job_progress WHERE job_id = :job_id;

-- name: pilots_without_a_job
-- Pilots that asked at the queue within the last hour and got nothing, by why, the latest first.
-- told by: DETAILS
SELECT why, n_pilots, reason, last_at FROM pilots_without_a_job
 WHERE queue = :queue AND last_at > orrery_now() - interval '1 hour' ORDER BY last_at DESC, why;

-- name: advert_of_site
-- What a site says of itself, if it is believed.
-- told by: DETAILS
SELECT a.site, a.max_jobs, a.max_submitting_jobs, a.current_jobs, a.current_submitting_jobs, a.current_matches,
       a.requirements, a.advertisement
  FROM site_adverts a WHERE a.site = :site AND a.expires_at > orrery_now();

-- name: asked_of_job
-- What Requirements of sites may ask of a live job.
-- told by: DETAILS
SELECT j.task_id, j.core_count, s.ram_mb, t.user_name, t.current_priority, t.prod_source_label, t.vo,
       t.processing_type, t.working_group, t.gshare, t.split_rule ->> 'requirements' AS requirements
  FROM jobs j JOIN requirement_shapes s USING (shape_id) JOIN tasks t ON t.task_id = j.task_id
 WHERE j.job_id = :job_id;

-- name: transfers_of_job
-- Transfers of a job in the order they were asked for, with what became of their request. Index transfers_job.
-- told by: DETAILS
SELECT x.transfer_id, x.direction, x.source_storage, x.destination_storage, x.n_files, x.n_bytes, x.status,
       x.requested_at, x.due_at, x.completed_at, coalesce(x.error, r.reason) AS error, r.rule_id
  FROM transfers x LEFT JOIN catalogue_requests r USING (request_id) WHERE x.job_id = :job_id ORDER BY x.transfer_id;

-- name: catalogue_requests_of_task
-- What a task waits for at its catalogue, the oldest first. Index catalogue_requests_of_task.
-- told by: DETAILS
SELECT vo, kind, subject, status, attempts, reason, next_at, rule_id FROM catalogue_requests
 WHERE task_id = :task_id AND status IN ('open', 'moving') ORDER BY request_id LIMIT :at_most::int;
