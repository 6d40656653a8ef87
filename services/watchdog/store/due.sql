-- What the watchdog reads and writes, but for the sweep (sweeps.sql).

-- name: grace_of
-- Until when nothing is ended after the services were away, and why; when the last slice of a long turn was.
SELECT grace_until, grace_reason, last_slice_at FROM watch_runs WHERE watch = :watch;

-- name: give_back_turn
-- There is more to do: the next run is due at once, as this one was.
UPDATE watch_runs SET last_run_at = :previous_at, last_slice_at = orrery_now() WHERE watch = :watch;

-- name: record_grace
-- Nothing is ended until then.
UPDATE watch_runs SET grace_until = :grace_until, grace_reason = :grace_reason, last_slice_at = NULL
 WHERE watch = :watch;

-- name: dispatcher_seen_at
-- When a replica of job_dispatch last ran.
SELECT max(seen_at) FROM dispatch_replicas;

-- name: due_jobs
-- Jobs whose deadline has come, the earliest first, with what time-out rules ask about them. Index jobs_deadline.
WITH due AS MATERIALIZED (
    SELECT job_id FROM jobs WHERE deadline_at < :before::timestamptz ORDER BY deadline_at, job_id LIMIT :most::int)
SELECT f.* FROM due CROSS JOIN LATERAL orrery_asked_of_job(due.job_id, :merges_before, :es_priority, :back_since) f;

-- name: concerned_jobs
-- Of the next jobs by id, the first of those in some states or at some queues, with what time-out rules ask about them.
-- By primary key.
WITH next AS MATERIALIZED (
    SELECT job_id, status, queue FROM jobs WHERE job_id > :after::bigint AND job_id <= :upto::bigint
       AND deadline_at IS NOT NULL
       AND (status = ANY(:states::text[]) OR coalesce(queue, :no_queue) = ANY(:queues::text[]))
     ORDER BY job_id LIMIT :most::int)
SELECT f.* FROM next CROSS JOIN LATERAL orrery_asked_of_job(next.job_id, :merges_before, :es_priority, :back_since) f
 ORDER BY f.job_id;

-- name: upto_job
-- The last of the next jobs by id; NULL: there are no more. By primary key.
SELECT max(job_id) FROM (SELECT job_id FROM jobs WHERE job_id > :after::bigint ORDER BY job_id LIMIT :most::int) next;

-- name: put_off_jobs
-- Rules are asked again then, unless the job changed its state meanwhile or somebody works on it now: then it is asked
-- about in the next slice.
WITH later AS (
    SELECT * FROM unnest(:job_ids::bigint[], :statuses::text[], :changed_at::timestamptz[], :deadlines::timestamptz[])
           AS w (job_id, status, changed_at, deadline_at)
), held AS MATERIALIZED (
    SELECT j.job_id, w.deadline_at FROM jobs j JOIN later w ON w.job_id = j.job_id AND w.status = j.status
       AND w.changed_at = j.state_change_time AND w.deadline_at IS DISTINCT FROM j.deadline_at
     ORDER BY j.job_id FOR NO KEY UPDATE OF j SKIP LOCKED
)
UPDATE jobs j SET deadline_at = h.deadline_at FROM held h WHERE j.job_id = h.job_id RETURNING j.job_id;

-- name: basis
-- By what jobs were judged, and how far those are whom a change concerns.
SELECT states, queues, moved_states, moved_queues, moved_to FROM deadline_basis;

-- name: put_basis
-- What jobs are judged by from now on.
INSERT INTO deadline_basis AS b (states, queues, moved_states, moved_queues, moved_to)
VALUES (:states, :queues, :moved_states::text[], :moved_queues::text[], :moved_to)
ON CONFLICT (singleton) DO UPDATE
SET states = excluded.states, queues = excluded.queues, moved_states = excluded.moved_states,
    moved_queues = excluded.moved_queues, moved_to = excluded.moved_to;

-- name: note_moved
-- So far are those whom a change concerns; NULL: all were asked about.
UPDATE deadline_basis SET moved_to = :moved_to::bigint,
       moved_states = CASE WHEN :moved_to::bigint IS NULL THEN '{}' ELSE moved_states END,
       moved_queues = CASE WHEN :moved_to::bigint IS NULL THEN '{}' ELSE moved_queues END;

-- name: put_deadlines
-- When jobs that change their state from now on are asked about.
INSERT INTO job_deadlines AS d (status, after_change, after_creation)
SELECT * FROM unnest(:statuses::text[], :after_change::interval[], :after_creation::interval[])
ON CONFLICT (status) DO UPDATE SET after_change = excluded.after_change, after_creation = excluded.after_creation
 WHERE (d.after_change, d.after_creation) IS DISTINCT FROM (excluded.after_change, excluded.after_creation);

-- name: shares
-- Names of all shares.
SELECT gshare FROM shares ORDER BY gshare;

-- name: crowded_shares
-- Of shares that have a threshold, those of which more jobs wait somewhere by the statistics: their jobs are counted.
SELECT DISTINCT gshare
  FROM (SELECT s.gshare FROM queue_statistics s
          JOIN unnest(:gshares::text[], :n_queued::float8[]) AS w (gshare, n_queued) USING (gshare)
         WHERE s.status = ANY(:waiting::text[])
         GROUP BY s.gshare, s.queue, w.n_queued HAVING sum(s.n_jobs) > w.n_queued) crowded
 ORDER BY gshare;

-- name: jobs_by_queue_and_share
-- Of shares that have a threshold. Table jobs and not the statistics: those may be behind, and then the same excess
-- would be taken away again. Queues with slots of their own and the work of resource queues are not counted at all.
SELECT j.queue, j.gshare, count(*) FILTER (WHERE j.status <> :running) AS n_queued,
       count(*) FILTER (WHERE j.status = :running) AS n_running
  FROM jobs j
 WHERE j.gshare = ANY(:gshares::text[]) AND (j.status = ANY(:waiting::text[]) OR j.status = :running)
   AND NOT EXISTS (SELECT FROM valid_queue_slots s WHERE s.queue = j.queue)
   AND NOT EXISTS (SELECT FROM tasks t JOIN work_queues w ON w.queue_id = t.work_queue_id
                    WHERE t.task_id = j.task_id AND w.queue_function = 'Resource')
 GROUP BY j.queue, j.gshare;

-- name: overloads_left
-- What is left of the last judgement of overloaded queues; who works on it now is waited for.
SELECT queue, gshare, n_excess, n_left, reason, judged_at FROM overloads ORDER BY place FOR UPDATE;

-- name: put_overloads
-- What is left now, instead of what was left before.
WITH gone AS (
    DELETE FROM overloads WHERE (queue, gshare) NOT IN (SELECT * FROM unnest(:queues::text[], :gshares::text[])))
INSERT INTO overloads (queue, gshare, n_excess, n_left, reason, judged_at, place)
SELECT o.queue, o.gshare, o.n_excess, o.n_left, o.reason, :judged_at, o.place
  FROM unnest(:queues::text[], :gshares::text[], :n_excess::int[], :n_left::int[], :reasons::text[])
       WITH ORDINALITY AS o (queue, gshare, n_excess, n_left, reason, place)
ON CONFLICT (queue, gshare) DO UPDATE
SET n_excess = excluded.n_excess, n_left = excluded.n_left, reason = excluded.reason, judged_at = excluded.judged_at,
    place = excluded.place;

-- name: jobs_to_rebroker
-- The oldest waiting jobs of each queue and share, as many as it may lose. Left where they are: merge jobs, jobs
-- of tasks that are not to be moved, and of tasks with one queue to go to, for they would come back; and work that did come back to the queue it was taken from within
-- the last :again_s seconds, for brokerage found no better place.
WITH wanted AS (
    SELECT * FROM unnest(:queues::text[], :gshares::text[], :n_jobs::int[]) AS w (queue, gshare, n_jobs)
), ranked AS (
    SELECT j.job_id, j.status, j.creation_time, j.state_change_time, j.heartbeat_at, j.current_priority,
           j.prod_source_label, j.queue, j.gshare, j.task_id, j.chunk_id, w.n_jobs,
           row_number() OVER (PARTITION BY j.queue, j.gshare ORDER BY j.creation_time, j.job_id) AS place
      FROM jobs j JOIN wanted w ON w.queue = j.queue AND w.gshare = j.gshare
      JOIN tasks t ON t.task_id = j.task_id
     WHERE j.status = ANY(:waiting::text[]) AND NOT orrery_is_bound(j.job_type, t.site)
       AND NOT t.split_rule ? 'disableReassign'
       AND NOT EXISTS (SELECT FROM work_queues r WHERE r.queue_id = t.work_queue_id AND r.queue_function = 'Resource')
       AND orrery_taken_from(j.queue, j.job_id, ARRAY[:error_code::int],
                             orrery_now() - make_interval(secs => :again_s)) IS NULL
)
SELECT * FROM ranked WHERE place <= n_jobs ORDER BY queue, gshare, place;

-- name: moves_of_groups
-- When jobs that were made together for a queue last went on, of each group in which one did since then.
SELECT task_id, chunk_id, queue, moved_at FROM orrery_groups_moved(:task_ids, :chunk_ids, :queues, :since);

-- name: jobs_of_groups
-- Analysis that waits and was made together for a queue, the first of each group by id, but for these jobs and those that
-- stay. Of no more of them than are read the history is asked. Index jobs_groups.
WITH asked AS MATERIALIZED (
    SELECT DISTINCT * FROM unnest(:task_ids::bigint[], :chunk_ids::bigint[], :queues::text[]) AS a (task_id, chunk_id, queue)
)
SELECT j.* FROM asked a CROSS JOIN LATERAL (
    SELECT w.* FROM (
        SELECT job_id, status, creation_time, state_change_time, heartbeat_at, current_priority, prod_source_label, queue,
               task_id, chunk_id, job_type FROM jobs
         WHERE queue = a.queue AND chunk_id = a.chunk_id AND task_id = a.task_id
           AND orrery_is_analysis(NULL, prod_source_label) AND status = ANY(:waiting::text[]) AND job_type <> 'merge'
           AND job_id <> ALL(:but::bigint[])
         ORDER BY job_id OFFSET 0) w
     WHERE orrery_taken_from(w.queue, w.job_id, :codes::int[], :back_since) IS NULL LIMIT :most::int) j
 LIMIT :most::int;

-- name: expire_jobs
-- Only jobs that are as they were when they were judged: a heartbeat or a report in between saves them. What a lost job
-- of the event service processed is merged (JEDI: Final status of Event Service jobs); that of a jumbo job with the job
-- sets that it belongs to. The end time of a job that its pilot reported stays; neither is the wait for a merge part of it.
WITH judged AS (
    SELECT * FROM unnest(:job_ids::bigint[], :statuses::text[], :changed_at::timestamptz[],
                         :heartbeats_at::timestamptz[]) AS w (job_id, status, changed_at, heartbeat_at)
), held AS MATERIALIZED (
    SELECT j.job_id, j.status AS was, :error_code::int = :worker_gone::int AND j.job_type <> 'jumbo' AND EXISTS (
           SELECT FROM event_ranges r
            WHERE r.task_id = j.task_id AND r.job_id = j.job_id AND r.job_set_id IS NOT NULL AND r.status = 3) AS processed
      FROM jobs j JOIN judged w ON w.job_id = j.job_id AND w.status = j.status
       AND w.changed_at = j.state_change_time AND w.heartbeat_at IS NOT DISTINCT FROM j.heartbeat_at
     WHERE j.status = ANY(:allowed::text[])
     ORDER BY j.job_id FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs j
   SET status = CASE WHEN h.processed THEN 'merging' ELSE :to_status::text END, state_change_time = orrery_now(),
       end_time = coalesce(j.end_time, orrery_now()), error_source = 'watchdog',
       error_code = :error_code, error_dialog = :reason,
       deadline_at = orrery_deadline(d.after_change, d.after_creation, j.creation_time)
  FROM held h LEFT JOIN job_deadlines d ON d.status = 'merging' AND h.processed
 WHERE j.job_id = h.job_id
RETURNING j.status, j.job_id, j.task_id, j.queue, j.resource_type, j.gshare, j.user_name, j.core_count, h.was;

-- name: pending_tasks
-- Those whose time has come: to go on, or to be exhausted unless the parent works. They are held, and whoever works on one
-- keeps it until the next look: who takes tasks by their priority may wait for nobody who takes them by id.
WITH waits AS MATERIALIZED (
    SELECT * FROM unnest(:least_priorities::int[], :waits_s::float8[]) AS w (least_priority, wait_s)
), timeouts AS MATERIALIZED (
    SELECT * FROM unnest(:labels::text[], :timeouts_s::float8[]) AS o (label, timeout_s)
)
SELECT t.task_id, t.old_status, t.current_priority, t.prod_source_label, t.state_change_time, t.frozen_time, t.retry_at,
       p.status AS parent_status
  FROM tasks t LEFT JOIN tasks p ON p.task_id = t.parent_tid AND p.task_id <> t.task_id
  LEFT JOIN timeouts o ON o.label = t.prod_source_label
  LEFT JOIN timeouts every ON every.label = ''
 WHERE t.status = 'pending'
   AND (coalesce(t.retry_at,
                 t.state_change_time + make_interval(secs => coalesce(
                     (SELECT w.wait_s FROM waits w WHERE w.least_priority <= t.current_priority
                       ORDER BY w.least_priority DESC LIMIT 1), :longest_wait_s::float8))) <= orrery_now()
        OR (coalesce(o.timeout_s, every.timeout_s) > 0 AND (p.status IS NULL OR p.status = ANY(:ended::text[]))
            AND coalesce(t.frozen_time, t.state_change_time)
                < orrery_now() - make_interval(secs => coalesce(o.timeout_s, every.timeout_s))))
 ORDER BY t.current_priority DESC, t.task_id
 LIMIT :most FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: woken_pending_tasks
-- Of these tasks, those that are pending and wait for a time, unless only work of them was woken that waits by itself.
SELECT t.task_id, t.old_status, t.current_priority, t.prod_source_label, t.state_change_time, t.frozen_time, t.retry_at,
       p.status AS parent_status
  FROM tasks t LEFT JOIN tasks p ON p.task_id = t.parent_tid AND p.task_id <> t.task_id
 WHERE t.task_id = ANY(:task_ids::bigint[]) AND t.status = 'pending' AND t.retry_at IS NOT NULL
   AND coalesce((SELECT bool_or(w.work NOT IN ('merge', 'job sets')) FROM waits w
                  WHERE w.task_id = t.task_id AND w.woken_at IS NOT NULL AND w.placed_at IS NULL), true)
 ORDER BY t.task_id;

-- name: woken_tasks
-- Of these tasks, those in other states that wait for a time, themselves or with a chunk or job sets; and any whose merges
-- or job sets wait, for these are made also while nothing else is.
SELECT task_id, status FROM tasks
 WHERE task_id = ANY(:task_ids::bigint[])
   AND (status = ANY(:statuses::text[])
        AND (retry_at IS NOT NULL OR co_jumbo_retry_at IS NOT NULL
             OR EXISTS (SELECT FROM chunks c WHERE c.task_id = tasks.task_id AND c.retry_at IS NOT NULL))
        OR EXISTS (SELECT FROM waits w LEFT JOIN chunks c ON c.chunk_id = w.chunk_id
                    WHERE w.task_id = tasks.task_id AND w.kind = 'queue'
                      AND (w.work = 'merge' AND c.retry_at IS NOT NULL
                           OR w.work = 'job sets' AND tasks.co_jumbo_retry_at IS NOT NULL)
                      AND w.woken_at IS NOT NULL AND w.placed_at IS NULL))
 ORDER BY task_id;

-- name: release_task
-- frozen_time keeps when it first became pending; the error stays readable until something new happens.
UPDATE tasks
   SET status = :to_status::text, old_status = CASE WHEN :to_status::text = 'exhausted' THEN old_status END, retry_at = NULL,
       frozen_time = coalesce(frozen_time, state_change_time),
       error_dialog = CASE WHEN :to_status::text = 'exhausted'
                           THEN left(:reason::text || coalesce(': ' || error_dialog, ''), 2000) ELSE error_dialog END,
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = 'pending'
   AND old_status IS NOT DISTINCT FROM :old_status::text AND retry_at IS NOT DISTINCT FROM :retry_at
RETURNING task_id;

-- name: assigning_tasks
-- Those that found no nucleus for too long, unless the parent works; held like pending ones. Index tasks_live.
WITH timeouts AS MATERIALIZED (
    SELECT * FROM unnest(:labels::text[], :timeouts_s::float8[]) AS o (label, timeout_s)
)
SELECT t.task_id, t.prod_source_label, coalesce(t.frozen_time, t.state_change_time) AS waiting_since,
       p.status AS parent_status
  FROM tasks t LEFT JOIN tasks p ON p.task_id = t.parent_tid AND p.task_id <> t.task_id
  LEFT JOIN timeouts o ON o.label = t.prod_source_label
  LEFT JOIN timeouts every ON every.label = ''
 WHERE t.status = 'assigning' AND coalesce(o.timeout_s, every.timeout_s) > 0
   AND (p.status IS NULL OR p.status = ANY(:ended::text[]))
   AND coalesce(t.frozen_time, t.state_change_time)
       < orrery_now() - make_interval(secs => coalesce(o.timeout_s, every.timeout_s))
 ORDER BY t.current_priority DESC, t.task_id
 LIMIT :most FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: exhaust_assigning
-- Compare-and-set: a task that got its nucleus meanwhile goes on.
UPDATE tasks
   SET status = 'exhausted', old_status = 'assigning', retry_at = NULL,
       frozen_time = coalesce(frozen_time, state_change_time),
       error_dialog = left(:reason::text || coalesce(': ' || error_dialog, ''), 2000),
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = 'assigning'
RETURNING task_id;

-- name: due_tasks
-- Live tasks that asked to be looked at again: assigning without a nucleus, working ones that found no queue; held like
-- pending ones.
SELECT task_id, status FROM tasks
 WHERE retry_at <= orrery_now() AND status = ANY(:statuses::text[])
 ORDER BY current_priority DESC, task_id
 LIMIT :most FOR NO KEY UPDATE SKIP LOCKED;

-- name: put_off_due_tasks
-- The next reminder, should the service that was told not act.
UPDATE tasks SET retry_at = orrery_now() + make_interval(secs => :again_s), modification_time = orrery_now()
 WHERE task_id = ANY(:task_ids::bigint[]) AND retry_at <= orrery_now() AND status = ANY(:statuses::text[])
RETURNING task_id, status;

-- name: forget_waiting
-- A task that had jobs made of a chunk since it first waited starts to wait anew. Begins with the chunks that ended since
-- the last look. One that somebody works on now has its turn at the next look. Index chunks_ended.
WITH held AS MATERIALIZED (
    SELECT t.task_id FROM tasks t
      JOIN (SELECT task_id, max(ended_at) AS ended_at FROM chunks
             WHERE status = 'used' AND n_jobs > 0 AND ended_at > :since::timestamptz GROUP BY task_id) c USING (task_id)
     WHERE t.frozen_time < c.ended_at AND t.status IN ('ready', 'scouting', 'scouted', 'running', 'prepared', 'pending')
     ORDER BY t.task_id FOR NO KEY UPDATE OF t SKIP LOCKED)
UPDATE tasks t SET frozen_time = NULL FROM held WHERE t.task_id = held.task_id;

-- name: use_of_shares
-- Waiting and running production of each share at each queue, by the statistics.
SELECT queue, gshare, coalesce(sum(n_jobs) FILTER (WHERE status = ANY(:waiting::text[])), 0)::bigint AS n_queued,
       coalesce(sum(n_jobs) FILTER (WHERE status = :running), 0)::bigint AS n_running
  FROM queue_statistics GROUP BY queue, gshare;

-- name: withholdable_tasks
-- The next production of a share that reads much, after a priority and task, the queues it names, and whether its input
-- has copies at the closed storages alone. Index tasks_withholdable.
SELECT t.task_id, t.current_priority AS priority, t.site,
       EXISTS (SELECT FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
                 JOIN catalogue.dataset_replicas r ON r.dataset_id = c.dataset_id
                WHERE d.task_id = t.task_id AND d.type = 'input')
       AND NOT EXISTS (SELECT FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
                         JOIN catalogue.dataset_replicas r ON r.dataset_id = c.dataset_id
                        WHERE d.task_id = t.task_id AND d.type = 'input' AND r.storage <> ALL(:closed::text[])) AS is_closed
  FROM tasks t
 WHERE t.gshare = :gshare AND t.current_priority < :priority::int
   AND (t.current_priority, t.task_id) > (:after_priority::int, :after_id::bigint)
   AND t.io_intensity >= 100 AND t.status IN ('ready', 'scouting', 'running', 'throttled')
   AND t.prod_source_label = :label AND t.io_intensity >= :io_intensity::float8
   AND (t.status <> 'throttled' OR t.error_dialog LIKE 'withheld: %')
 ORDER BY t.current_priority, t.task_id LIMIT :most::int;

-- name: withhold_tasks
-- These tasks make no jobs for a while; what is withheld goes on being so before its time is over. Whoever works on one
-- keeps it: it is looked at in the next turn. named: those that name closed queues alone.
WITH held AS MATERIALIZED (
    SELECT task_id FROM tasks
     WHERE task_id = ANY(:task_ids::bigint[])
       AND (status = ANY(:allowed::text[]) OR status = 'throttled' AND error_dialog LIKE 'withheld: %')
     ORDER BY task_id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE tasks t
   SET status = 'throttled', old_status = CASE WHEN t.status = 'throttled' THEN t.old_status ELSE t.status END,
       throttled_time = orrery_now(), retry_at = orrery_now() + make_interval(mins => :minutes),
       error_dialog = CASE WHEN t.task_id = ANY(:named::bigint[]) THEN :reason_of_named ELSE :reason END,
       state_change_time = CASE WHEN t.status = 'throttled' THEN t.state_change_time ELSE orrery_now() END,
       modification_time = orrery_now()
  FROM held WHERE t.task_id = held.task_id;

-- name: nearly_done
-- Live analysis of a share of which so much is processed, with its files. Index tasks_progress.
SELECT t.task_id, t.user_name, coalesce(t.vo, '') AS vo, t.split_rule, d.n_files, d.n_finished
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(n_files), 0)::bigint AS n_files, coalesce(sum(n_files_finished), 0)::bigint AS n_finished
         FROM task_datasets
        WHERE task_id = t.task_id AND master_id IS NULL AND type IN ('input', 'pseudo_input', 'pp_input')
           AND status <> 'removed') d
 WHERE t.gshare = :gshare AND t.progress >= :least_percent::int AND t.task_id > :after::bigint
   AND t.status IN ('scouting', 'scouted', 'running', 'pending', 'throttled')
   AND orrery_is_analysis(t.task_type, t.prod_source_label)
 ORDER BY t.task_id
 LIMIT :most::int;

-- name: running_cores_of_users
-- Running cores of users of VOs in these shares, by user and queue. Index queue_statistics_user.
SELECT u.user_name, u.vo, c.queue, sum(c.n_cores)::bigint AS n_cores
  FROM (SELECT DISTINCT * FROM unnest(:user_names::text[], :vos::text[]) AS a (user_name, vo)) u
 CROSS JOIN LATERAL orrery_jobs_of_account(u.user_name, u.vo) c
 WHERE c.status = 'running' AND c.gshare = ANY(:gshares::text[]) GROUP BY 1, 2, 3;

-- name: throttle_candidates
-- Of tasks that were tried, or changed their state, since the last look only those whose files may be tried so often at all,
-- and that reached a multiple they were not throttled for yet. No number says that the task is never throttled (noThrottle).
-- Indexes task_job_counts_tried, tasks_changed, task_files_tried.
WITH asked AS MATERIALIZED (
    SELECT task_id FROM task_job_counts WHERE tried_at >= :since
    UNION
    SELECT task_id FROM tasks WHERE state_change_time >= :since AND status IN ('ready', 'scouting', 'running')
)
SELECT t.task_id, t.status, t.num_throttled, a.max_attempt_nr
  FROM asked JOIN tasks t USING (task_id)
  CROSS JOIN LATERAL (
       SELECT coalesce(max(f.attempt_nr), 0) AS max_attempt_nr
         FROM task_datasets d JOIN task_files f ON f.dataset_id = d.dataset_id
        WHERE d.task_id = t.task_id AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.master_id IS NULL
          AND f.status IN ('ready', 'picked', 'running') AND f.attempt_nr > 0) a
 WHERE t.status IN ('ready', 'scouting', 'running') AND NOT orrery_is_analysis(t.task_type, t.prod_source_label)
   AND t.num_throttled IS NOT NULL AND t.max_attempt > :every_attempts
   AND a.max_attempt_nr / :every_attempts > t.num_throttled
 ORDER BY t.task_id
 LIMIT :most;

-- name: failing_tasks
-- Running tasks of a label of which as many jobs failed as a rate allows, or jobs of as much of the HEP score seconds,
-- with what is left of their input, those of most failures first: of those of which a job failed, or that changed their
-- state, since the last look. A share without a rate of its own has the usual one, which may be NULL; what jobs used is
-- read only where such a rate is set. Indexes task_job_counts_tried, tasks_changed, task_usage_pkey.
WITH asked AS MATERIALIZED (
    SELECT task_id FROM task_job_counts WHERE tried_at >= :since
    UNION
    SELECT task_id FROM tasks WHERE state_change_time >= :since AND status IN ('running')
), failing AS MATERIALIZED (
    SELECT t.task_id, coalesce(t.gshare, '') AS gshare, t.request_type, j.n_finished, j.n_failed,
           u.finished_hep_score_s, u.failed_hep_score_s
      FROM asked JOIN tasks t USING (task_id) JOIN task_job_counts j USING (task_id)
      LEFT JOIN unnest(:gshares::text[], :rates_percent::float8[], :hep_score_rates_percent::float8[])
             AS own (gshare, rate_percent, hep_score_rate_percent) ON own.gshare = t.gshare
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(s.finished_core_s * coalesce(q.power, :usual_power::float8)), 0)::float8
                      AS finished_hep_score_s,
                  coalesce(sum(s.failed_core_s * coalesce(q.power, :usual_power::float8)), 0)::float8
                      AS failed_hep_score_s
             FROM task_usage s LEFT JOIN unnest(:queues::text[], :powers::float8[]) AS q (queue, power) USING (queue)
            WHERE s.task_id = t.task_id
              AND coalesce(own.hep_score_rate_percent, :usual_hep_score_rate_percent::float8) IS NOT NULL) u
     WHERE t.status = 'running' AND t.prod_source_label = :label AND j.n_failed > 0
       AND j.n_finished + j.n_failed >= :least_jobs::int
       AND (100 * j.n_failed::float8 / nullif(j.n_finished + j.n_failed, 0)
            >= coalesce(own.rate_percent, :usual_rate_percent::float8)
            OR 100 * u.failed_hep_score_s / nullif(u.finished_hep_score_s + u.failed_hep_score_s, 0)
            >= coalesce(own.hep_score_rate_percent, :usual_hep_score_rate_percent::float8))
       AND NOT coalesce(t.split_rule ? :exempt::text, false)
)
SELECT f.*, d.units_done, d.units_left
  FROM failing f
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(n_files_finished + n_files_failed), 0)::bigint AS units_done,
              coalesce(sum(n_files - n_files_finished - n_files_failed), 0)::bigint AS units_left
         FROM task_datasets
        WHERE task_id = f.task_id AND master_id IS NULL AND type IN ('input', 'pseudo_input', 'pp_input')) d
 WHERE CASE WHEN f.n_finished > 0 AND d.units_done > 0 THEN d.units_left::float8 * f.n_finished / d.units_done
            ELSE d.units_left END >= :least_remaining::int
 ORDER BY f.n_failed DESC, f.task_id
 LIMIT :most;

-- name: running_of_request_types
-- Other running tasks of a label and of these request types that do not forbid it, type by type. Index tasks_by_status.
SELECT task_id, request_type FROM tasks
 WHERE status = 'running' AND prod_source_label = :label AND request_type = ANY(:request_types::text[])
   AND task_id <> ALL(:task_ids::bigint[]) AND NOT coalesce(split_rule ? :exempt::text, false)
 ORDER BY request_type COLLATE "C", task_id
 LIMIT :most;

-- name: throttle_task
-- Compare-and-set; only once for each number of attempts.
UPDATE tasks
   SET status = 'throttled', old_status = status, num_throttled = :times, throttled_time = orrery_now(),
       retry_at = orrery_now() + make_interval(mins => :minutes), error_dialog = :reason,
       state_change_time = orrery_now(), modification_time = orrery_now()
 WHERE task_id = :task_id AND status = ANY(:allowed::text[]) AND num_throttled < :times
RETURNING task_id;

-- name: moved_for_users
-- Input that is being moved for analysis, by user of a VO and by where it comes from, with the tasks. Indexes transfers_requested,
-- transfers_due.
SELECT t.user_name, coalesce(t.vo, '') AS vo, array_agg(DISTINCT t.task_id) AS task_ids,
       coalesce(sum(x.n_bytes) FILTER (WHERE x.source_storage = ANY(:tapes::text[])), 0)::bigint AS from_tape_bytes,
       coalesce(sum(x.n_bytes) FILTER (WHERE x.source_storage = ANY(:tapes::text[]) IS NOT TRUE), 0)::bigint
           AS from_disk_bytes
  FROM transfers x JOIN tasks t USING (task_id)
 WHERE x.status IN ('requested', 'active') AND x.direction = 'input'
   AND orrery_is_analysis(t.task_type, t.prod_source_label)
 GROUP BY t.user_name, coalesce(t.vo, '');

-- name: running_of_accounts
-- Running analysis jobs of users and working groups who may run more than so many, or have caps of their own, with their
-- live tasks. They are found in the statistics, which count all jobs of a user, and so at least those of the group.
-- Indexes tasks_of_live_users, tasks_of_live_group, jobs_task.
WITH use AS MATERIALIZED (
    SELECT user_name, vo, sum(n_jobs) AS n_jobs, sum(n_cores) AS n_cores
      FROM queue_statistics WHERE status = 'running' GROUP BY user_name, vo
), busy AS (
    SELECT user_name, vo FROM use
     WHERE n_jobs >= :least_jobs::float8 OR n_cores >= :least_cores::float8
        OR user_name IN (SELECT capped.user_name FROM users capped
                          WHERE capped.cap_running_jobs IS NOT NULL OR capped.cap_running_cores IS NOT NULL)
), busy_groups AS (
    SELECT m.working_group, m.vo FROM orrery_members_of_live_groups() m JOIN use USING (user_name, vo)
     GROUP BY m.working_group, m.vo
    HAVING sum(n_jobs) >= :least_group_jobs::float8 OR sum(n_cores) >= :least_group_cores::float8
), owned AS (
    SELECT t.task_id, coalesce(t.vo, '') AS vo, t.user_name, '' AS working_group
      FROM busy u JOIN tasks t ON t.user_name = u.user_name AND coalesce(t.vo, '') = u.vo
     WHERE coalesce(t.working_group, '') = ''
       AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
    UNION ALL
    SELECT t.task_id, g.vo, '', t.working_group
      FROM busy_groups g JOIN tasks t ON t.working_group = g.working_group AND coalesce(t.vo, '') = g.vo
     WHERE t.working_group <> '' AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
       AND orrery_is_analysis(t.task_type, t.prod_source_label)
)
SELECT o.vo, o.user_name, o.working_group, sum(j.n_jobs)::bigint AS n_jobs, sum(j.n_cores)::bigint AS n_cores,
       array_agg(o.task_id) AS task_ids, max(own.cap_running_jobs) AS jobs_cap, max(own.cap_running_cores) AS cores_cap
  FROM owned o
 CROSS JOIN LATERAL (SELECT count(*) AS n_jobs, coalesce(sum(core_count), 0) AS n_cores FROM jobs
                      WHERE jobs.task_id = o.task_id AND jobs.status = 'running') j
  LEFT JOIN LATERAL orrery_account(o.user_name, o.vo) own ON o.working_group = ''
 GROUP BY o.vo, o.user_name, o.working_group;

-- name: throttle_analysis
-- Tasks of which too much runs or is moved make no jobs for a while, by compare-and-set; those that pause already go on
-- doing so.
UPDATE tasks
   SET status = 'throttled', old_status = CASE WHEN status = 'throttled' THEN old_status ELSE status END,
       throttled_time = orrery_now(), retry_at = orrery_now() + make_interval(mins => :minutes), error_dialog = :reason,
       state_change_time = CASE WHEN status = 'throttled' THEN state_change_time ELSE orrery_now() END,
       modification_time = orrery_now()
 WHERE task_id = ANY(:task_ids::bigint[])
   AND (status = ANY(:allowed::text[]) OR status = 'throttled' AND retry_at <= orrery_now());

-- name: end_pauses
-- Throttled analysis goes on at once when neither transfers of its user nor running jobs of its account are too many any
-- more.
UPDATE tasks SET retry_at = orrery_now()
 WHERE status = 'throttled' AND retry_at > orrery_now() AND orrery_is_analysis(task_type, prod_source_label)
   AND (user_name, coalesce(vo, '')) NOT IN (SELECT * FROM unnest(:users::text[], :vos::text[]))
   AND task_id <> ALL(:task_ids::bigint[]);

-- name: throttled_due
-- Throttled tasks that go on now, held like pending ones. Index tasks_retry.
SELECT task_id, old_status FROM tasks
 WHERE status = 'throttled' AND retry_at <= orrery_now()
 ORDER BY current_priority DESC, task_id
 LIMIT :most FOR NO KEY UPDATE SKIP LOCKED;

-- name: unthrottle_task
-- A throttled task goes on, by compare-and-set.
UPDATE tasks
   SET status = :to_status::text, old_status = NULL, retry_at = NULL, state_change_time = orrery_now(),
       modification_time = orrery_now()
 WHERE task_id = :task_id AND status = 'throttled' AND retry_at <= orrery_now()
RETURNING task_id;

-- name: note_passed_over
-- Why an action did not choose these tasks; rows with the same reason stay as they are.
WITH chosen AS (DELETE FROM passed_over WHERE task_id = ANY(:chosen::bigint[]) AND action = :action::text)
INSERT INTO passed_over AS p (task_id, action, reason)
SELECT task_id, :action::text, reason FROM unnest(:task_ids::bigint[], :reasons::text[]) AS w (task_id, reason)
ON CONFLICT (task_id, action) DO UPDATE SET reason = excluded.reason, since = excluded.since
 WHERE p.reason <> excluded.reason;

-- name: audit
-- Commands and who gave them, newest first. Index audit_log_target, or the primary key.
-- told by: OPERATORS
SELECT audit_id, at, caller, roles, verb, target, outcome, details FROM audit_log
 WHERE (:target::text IS NULL OR target = :target) AND (:before_id::bigint IS NULL OR audit_id < :before_id)
 ORDER BY audit_id DESC
 LIMIT :most;

-- name: record_audit
-- Who gave which command, for people.
-- done for: OPERATORS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, :verb, :target, :outcome, :details);
