-- The reconciling sweep: rows that sat longer than `before` without moving. Each query returns entity_id and since
-- (when the row came into this condition); what else it returns, its builder in sweeps.py puts into the event.

-- name: registered_tasks
-- Tasks that were submitted and not defined.
SELECT task_id AS entity_id, state_change_time AS since, task_id, status FROM tasks
 WHERE status = 'registered' AND retry_at IS NULL AND state_change_time < :before;

-- name: half_defined_tasks
-- Tasks between two states in which nobody stays for long.
SELECT task_id AS entity_id, state_change_time AS since, task_id, status FROM tasks
 WHERE status IN ('defined', 'rerefine', 'staged', 'scouted', 'toretry', 'toincexec', 'toreassign', 'toabort')
   AND retry_at IS NULL AND state_change_time < :before;

-- name: assigning_tasks
-- Tasks without a nucleus that nobody looked at.
SELECT task_id AS entity_id, state_change_time AS since, task_id, status FROM tasks
 WHERE status = 'assigning' AND retry_at IS NULL AND state_change_time < :before;

-- name: ready_tasks
-- Ready tasks of which no chunk was offered.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, t.status, t.nucleus FROM tasks t
 WHERE t.status = 'ready' AND t.retry_at IS NULL AND t.state_change_time < :before
   AND NOT EXISTS (SELECT FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered');

-- name: idle_tasks
-- Open input and no chunk on its way; or nothing on its way at all (pre-merge jobs wait, they do not work). Asked are tasks
-- of which something moved until now: their state, a chunk, a job that was counted; those that were idle; and the next ones
-- by id, as what else moves has no time. LIMIT keeps each look-up at one index entry, where EXISTS would be turned into a
-- scan of all jobs. Indexes tasks_changed, chunks_ended, jobs_applied, tasks_in_turn.
WITH asked AS MATERIALIZED (
    SELECT task_id FROM tasks WHERE state_change_time >= :since AND state_change_time < :before
       AND status IN ('scouting', 'running', 'topreprocess', 'preprocessing')
    UNION
    SELECT task_id FROM chunks WHERE status <> 'offered' AND ended_at >= :since AND ended_at < :before
    UNION
    SELECT task_id FROM jobs WHERE results_applied_at >= :since AND results_applied_at < :before
    UNION
    SELECT unnest(:marked::bigint[])
    UNION
    SELECT task_id FROM tasks WHERE task_id > :after::bigint AND task_id <= :upto::bigint
       AND (status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')) IS TRUE
       AND status IN ('scouting', 'running', 'topreprocess', 'preprocessing')
)
SELECT t.task_id AS entity_id, greatest(t.state_change_time, last.moved_at) AS since, t.task_id, t.status
  FROM asked a
  CROSS JOIN LATERAL (SELECT * FROM tasks
                       WHERE task_id = a.task_id AND status IN ('scouting', 'running', 'topreprocess', 'preprocessing')
                         AND retry_at IS NULL LIMIT 1) t
  LEFT JOIN LATERAL (SELECT greatest(c.offered_at, c.ended_at) AS moved_at FROM chunks c
                      WHERE c.task_id = t.task_id ORDER BY c.chunk_id DESC LIMIT 1) last ON true
  LEFT JOIN LATERAL (SELECT c.chunk_id FROM chunks c
                      WHERE c.task_id = t.task_id AND c.status = 'offered' LIMIT 1) chunk ON true
  LEFT JOIN LATERAL (SELECT d.dataset_id FROM task_datasets d
                      WHERE d.task_id = t.task_id AND d.master_id IS NULL
                        AND d.type IN ('input', 'pseudo_input', 'pp_input') AND d.n_files_to_be_used > d.n_files_used
                      LIMIT 1) input ON true
  LEFT JOIN LATERAL (SELECT j.job_id FROM jobs j
                      WHERE j.task_id = t.task_id AND j.results_applied_at IS NULL AND j.status <> 'merging'
                      LIMIT 1) job ON true
 WHERE chunk.chunk_id IS NULL AND greatest(t.state_change_time, last.moved_at) < :before
   AND (input.dataset_id IS NOT NULL
        OR job.job_id IS NULL AND NOT EXISTS (SELECT FROM chunks h WHERE h.task_id = t.task_id AND h.retry_at > orrery_now()));

-- name: upto_task
-- The last of the next tasks that have jobs; NULL: there are no more. Index tasks_in_turn.
SELECT max(task_id) FROM (
    SELECT task_id FROM tasks WHERE task_id > :after::bigint
       AND (status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')) IS TRUE
       AND status IN ('scouting', 'running', 'topreprocess', 'preprocessing')
     ORDER BY task_id LIMIT :most) next;

-- name: prepared_tasks
-- Tasks whose end was not decided.
SELECT task_id AS entity_id, state_change_time AS since, task_id, status FROM tasks
 WHERE status IN ('prepared', 'passed') AND state_change_time < :before;

-- name: leaving_tasks
-- Tasks that a command ends, with what they still have at work: as many jobs as are counted, it is told that there are some.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, t.status,
       coalesce((t.command_details ->> 'soft')::boolean, true) AS soft, n.live_jobs, f.*
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT (SELECT count(*) FROM (SELECT FROM jobs j WHERE j.task_id = t.task_id AND j.results_applied_at IS NULL
                                      LIMIT 100) counted)
            + (SELECT count(*) FROM chunks c WHERE c.task_id = t.task_id AND c.status = 'offered') AS live_jobs) n
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(d.n_files_finished), 0)::bigint AS files_finished,
              coalesce(sum(d.n_files_failed), 0)::bigint AS files_failed,
              coalesce(sum(d.n_files), 0)::bigint AS files_total
         FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) f
 WHERE t.status IN ('aborting', 'finishing', 'reassigning', 'tobroken') AND t.state_change_time < :before;

-- name: paused_tasks
-- A pilot may still get a job of a paused task: it was activated while the command was on its way.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, t.status
  FROM tasks t
  CROSS JOIN LATERAL (SELECT j.job_id FROM jobs j
                       WHERE j.task_id = t.task_id AND j.status = 'activated' LIMIT 1) job
 WHERE t.status = 'paused' AND t.state_change_time < :before;

-- name: long_paused_tasks
-- Jobs that no pilot can take yet, of tasks that are paused for longer than jobs may wait for the end of it.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, t.status
  FROM tasks t
  CROSS JOIN LATERAL (SELECT j.job_id FROM jobs j
                       WHERE j.task_id = t.task_id AND j.status IN ('pending', 'waiting', 'defined', 'assigned')
                       LIMIT 1) job
 WHERE t.status = 'paused' AND t.state_change_time < :before;

-- name: resumed_tasks
-- Jobs held back although their task goes on: they were throttled while the command to resume was on its way. Those of
-- analysis may be over the cap of their user, so that only job dispatch, which counts them, lets them go on. Begins with
-- the users who have throttled jobs, as the statistics count them. Indexes tasks_of_live_users, jobs_task.
WITH holders AS MATERIALIZED (
    SELECT user_name, vo FROM queue_statistics WHERE status = 'throttled' GROUP BY user_name, vo HAVING sum(n_jobs) > 0)
SELECT t.task_id AS entity_id, job.state_change_time AS since, t.task_id, t.status
  FROM holders h JOIN tasks t ON t.user_name = h.user_name AND coalesce(t.vo, '') = h.vo
  CROSS JOIN LATERAL (SELECT j.state_change_time FROM jobs j
                       WHERE j.task_id = t.task_id AND j.status = 'throttled' AND j.state_change_time < :before
                       LIMIT 1) job
 WHERE t.status IN ('topreprocess', 'preprocessing', 'defined', 'assigning', 'ready', 'scouting', 'scouted', 'running',
                    'pending', 'throttled')
   AND NOT orrery_is_analysis(t.task_type, t.prod_source_label);

-- name: jobs_of_ended_tasks
-- Tasks that ended in the last two days and still have live jobs. Index tasks_changed.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, t.status FROM tasks t
 WHERE t.state_change_time > :before::timestamptz - interval '2 days' AND t.state_change_time < :before
   AND t.status IN ('done', 'finished', 'failed', 'broken', 'aborted')
   AND EXISTS (SELECT FROM jobs j WHERE j.task_id = t.task_id
                                    AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled'));

-- name: offered_chunks
-- Chunks that nobody brokered. Index chunks_open.
SELECT chunk_id AS entity_id, offered_at AS since, chunk_id, task_id FROM chunks
 WHERE status = 'offered' AND offered_at < :before;

-- name: stale_chunks
-- Their files have been picked for too long.
SELECT chunk_id AS entity_id, created_at AS since, chunk_id, task_id FROM chunks
 WHERE status = 'offered' AND offered_at < :before;

-- name: defined_jobs
-- Jobs that were generated and not taken on. Index jobs_passing.
SELECT job_id AS entity_id, state_change_time AS since, job_id, task_id, chunk_id FROM jobs
 WHERE status = 'defined' AND state_change_time < :before;

-- name: holding_jobs
-- Jobs whose reports were not worked on. Index jobs_passing.
SELECT job_id AS entity_id, state_change_time AS since, job_id FROM jobs
 WHERE status = 'holding' AND state_change_time < :before;

-- name: unmerged_jobs
-- The outputs of a merging job become mergeable at once, and a job of a job set is looked at; if not, nobody heard of it.
-- Indexes jobs_passing, jobs_pkey.
SELECT j.job_id AS entity_id, j.state_change_time AS since, j.job_id FROM jobs j
 WHERE j.status = 'merging' AND j.state_change_time < :before
   AND (j.state_change_time >= :since OR j.job_id = ANY(:marked::bigint[]))
   AND (EXISTS (SELECT FROM task_files f WHERE f.out_job_id = j.job_id AND f.status IN ('running', 'defined')
                                           AND f.type IN ('trn_output', 'trn_log'))
        OR EXISTS (SELECT FROM job_set_jobs m
                    WHERE m.job_id = j.job_id AND m.role = 'consumer' AND m.sub_status IS NULL));

-- name: uncounted_jobs
-- Jobs that ended and were not counted. Index jobs_unapplied.
SELECT job_id AS entity_id, state_change_time AS since, job_id, status FROM jobs
 WHERE results_applied_at IS NULL AND status IN ('finished', 'failed', 'closed', 'cancelled')
   AND state_change_time < :before;

-- name: requested_transfers
-- Transfers that were asked for and not started. Index transfers_requested.
SELECT transfer_id AS entity_id, requested_at AS since, transfer_id FROM transfers
 WHERE status = 'requested' AND requested_at < :before;

-- name: moved_jobs
-- All transfers of the job ended, and it still waits for them. Begins with the transfers. Indexes transfers_ended,
-- transfers_job, jobs_pkey.
WITH ended AS MATERIALIZED (
    SELECT DISTINCT job_id FROM transfers
     WHERE completed_at < :before AND status IN ('done', 'failed')
       AND (completed_at >= :since OR job_id = ANY(:marked::bigint[])))
SELECT j.job_id AS entity_id, max(x.completed_at) AS since, j.job_id, array_agg(x.transfer_id) AS transfer_ids,
       bool_or(x.status = 'failed') AS failed
  FROM ended e JOIN jobs j USING (job_id) JOIN transfers x
    ON x.job_id = j.job_id AND x.direction = CASE j.status WHEN 'assigned' THEN 'input' ELSE 'output' END
 WHERE j.status IN ('assigned', 'transferring') AND j.state_change_time < :before
 GROUP BY j.job_id
HAVING bool_and(x.status IN ('done', 'failed')) AND max(x.completed_at) < :before;

-- name: tasks_at_goal
-- Running tasks that have as much as their owner wanted, by the count that decides their final status. Events are summed
-- up only where those in use could be enough. Index tasks_with_goal.
SELECT t.task_id AS entity_id, t.state_change_time AS since, t.task_id, w.wanted, c.n_files_finished, c.n_files
  FROM tasks t
  CROSS JOIN LATERAL (
       SELECT coalesce(sum(d.n_files_finished), 0) AS files, coalesce(sum(d.n_files), 0) AS all_files,
              sum(d.n_events_used) AS events,
              CASE WHEN bool_and(d.n_events IS NOT NULL) THEN sum(d.n_events) END AS all_events
         FROM task_datasets d
        WHERE d.task_id = t.task_id AND d.master_id IS NULL AND d.type IN ('input', 'pseudo_input', 'pp_input')) s
  CROSS JOIN LATERAL (
       SELECT least(CASE WHEN t.goal > 0 AND t.goal < 1000 THEN t.goal END,
                    10 * split_part(t.term_condition, '%', 1)::float8) AS lowest) p
  CROSS JOIN LATERAL orrery_completeness(
       CASE WHEN s.files * 1000 >= p.lowest * s.all_files OR s.events * 1000 >= p.lowest * s.all_events
            THEN t.task_id END) c
  CROSS JOIN LATERAL (
       SELECT CASE WHEN t.goal > 0 AND t.goal < 1000 AND c.permille >= t.goal
                   THEN 'goal of ' || (t.goal / 10.0)::float8 || ' %'
                   WHEN CASE WHEN t.term_condition LIKE '%files' THEN c.files_permille ELSE c.permille END
                        >= 10 * split_part(t.term_condition, '%', 1)::float8
                   THEN 'condition of ' || t.term_condition END AS wanted) w
 WHERE t.status = 'running' AND (t.goal > 0 AND t.goal < 1000 OR t.term_condition IS NOT NULL)
   AND t.state_change_time < :before AND c.n_files > 0 AND w.wanted IS NOT NULL;

-- name: exhausted_tasks
-- Tasks that wait for a decision of their owner.
SELECT task_id AS entity_id, state_change_time AS since, task_id FROM tasks
 WHERE status = 'exhausted' AND state_change_time < :before AND NOT split_rule ? 'disableAutoFinish';

-- name: mark_swept
-- When a row was announced again, and how often.
INSERT INTO sweep_marks AS m (kind, entity_id, times, swept_at)
SELECT :kind, w.entity_id, w.times, orrery_now()
  FROM unnest(:entity_ids::bigint[], :times::int[]) AS w (entity_id, times)
ON CONFLICT (kind, entity_id) DO UPDATE SET times = excluded.times, swept_at = excluded.swept_at;

-- name: note_rescued_tasks
-- When tasks were last found without progress; one that somebody works on at this moment is not waited for.
UPDATE tasks SET rescue_time = orrery_now()
 WHERE task_id IN (SELECT task_id FROM tasks WHERE task_id = ANY(:task_ids::bigint[])
                    ORDER BY task_id FOR NO KEY UPDATE SKIP LOCKED);

-- name: swept_until
-- Up to which time rows of a kind were looked at, and how far its walk is.
SELECT last_run_at AS until, walk_began_at, walk_after FROM watch_runs WHERE watch = 'sweep ' || :kind;

-- name: note_swept_until
-- Rows of a kind up to this time were looked at.
INSERT INTO watch_runs (watch, last_run_at) VALUES ('sweep ' || :kind, :before)
ON CONFLICT (watch) DO UPDATE SET last_run_at = excluded.last_run_at;

-- name: note_walk
-- So far is the walk of a kind.
UPDATE watch_runs SET walk_began_at = :began_at, walk_after = :after WHERE watch = 'sweep ' || :kind;

-- name: marks_due
-- Rows of a kind that were announced and are to be announced again unless they went on, the longest ago first. By primary
-- key.
SELECT entity_id FROM sweep_marks
 WHERE kind = :kind AND swept_at + make_interval(secs => :age_s::float8 * 2 ^ least(times, 6)) <= orrery_now()
 ORDER BY swept_at LIMIT :most;

-- name: forget_marks_of
-- Rows of a kind that were announced and went on.
DELETE FROM sweep_marks WHERE kind = :kind AND entity_id = ANY(:entity_ids::bigint[]);

-- name: forget_marks
-- Marks of these kinds that are older than any wait between two announcements, and such of kinds that are not of all that
-- sweeps have (NULL: none of these). Index sweep_marks_old.
DELETE FROM sweep_marks
 WHERE swept_at < orrery_now() - interval '2 days'
   AND (kind = ANY(:kinds::text[]) OR kind <> ALL(:all_kinds::text[]));
