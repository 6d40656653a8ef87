-- Data on its way: transfers for jobs, staging from tape, and what is wanted of catalogues outside.

-- Ids of transfers.
CREATE SEQUENCE transfer_ids;

-- Files of a job that are moved: input to its queue, or outputs from there.
CREATE TABLE transfers (
    transfer_id bigint PRIMARY KEY DEFAULT nextval('transfer_ids'),   -- its id
    task_id bigint NOT NULL,                   -- the task
    job_id bigint NOT NULL,                    -- the job that waits for it
    direction text NOT NULL CHECK (direction IN ('input', 'output')),   -- which files of the job
    dataset_ids bigint[],                      -- the datasets whose files are moved; NULL: all of its job
    activity text NOT NULL,                    -- as catalogues outside are told: Production Input, ...
    source_storage text,                       -- from; NULL: not stated
    destination_storage text NOT NULL,         -- to
    n_files int NOT NULL,                      -- files
    n_bytes bigint NOT NULL,                   -- bytes
    status text NOT NULL CHECK (status IN ('requested', 'active', 'done', 'failed')),   -- where it stands
    requested_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was asked for
    due_at timestamptz,                        -- when the built-in catalogue ends it
    completed_at timestamptz,                  -- when it ended
    error text,                                -- why it failed
    request_id bigint                          -- the request to a catalogue outside that carries it out
);
CREATE INDEX transfers_requested ON transfers (requested_at) WHERE status = 'requested';
CREATE INDEX transfers_due ON transfers (due_at) WHERE status = 'active';
CREATE INDEX transfers_ended ON transfers (completed_at) WHERE status IN ('done', 'failed');
CREATE INDEX transfers_job ON transfers (job_id);
CREATE INDEX transfers_of_request ON transfers (request_id) WHERE request_id IS NOT NULL;

-- Input that tasks wait for on tape: asked for, brought to disk, or given up.
CREATE TABLE stage_ins (
    stage_in_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its number
    task_id bigint NOT NULL,                   -- the task
    vo text NOT NULL,                          -- the task's VO
    user_name text NOT NULL,                   -- the task's owner
    dataset_id bigint NOT NULL,                -- the dataset of the task
    dataset_name text NOT NULL,                -- its name
    source_storage text,                       -- the tape; NULL: none that has it is known yet
    destination_storage text,                  -- the disk; NULL: none to which it may go is known yet
    n_files int NOT NULL,                      -- files
    n_bytes bigint NOT NULL,                   -- bytes
    n_staged int NOT NULL DEFAULT 0,           -- files that are on disk
    waits_for text,                            -- why it has not begun
    -- where it stands
    status text NOT NULL DEFAULT 'requested' CHECK (status IN ('requested', 'active', 'done', 'failed')),
    requested_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was asked for
    started_at timestamptz,                    -- when it began
    due_at timestamptz,                        -- when the built-in catalogue ends it; outside the end is told
    ended_at timestamptz,                      -- when it ended
    error text                                 -- why it was given up
);
CREATE UNIQUE INDEX stage_ins_once ON stage_ins (task_id, dataset_id) WHERE status IN ('requested', 'active');
CREATE INDEX stage_ins_open ON stage_ins (stage_in_id) WHERE status IN ('requested', 'active');

-- What is wanted of catalogues outside: written with the change that wants it, carried out and tried again by workers.
CREATE TABLE catalogue_requests (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- its id
    vo text NOT NULL,                          -- the VO whose catalogue it is
    task_id bigint NOT NULL,                   -- the task
    kind text NOT NULL CHECK (kind IN ('read', 'create', 'add_files', 'remove_files', 'close', 'reopen', 'keep', 'move',
        'expire', 'release', 'stage')),        -- what is to be done
    subject text NOT NULL,                     -- a dataset, a storage, or what the request is about
    details jsonb NOT NULL DEFAULT '{}',       -- the arguments
    status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'moving', 'done', 'failed')),   -- where it stands
    attempts int NOT NULL DEFAULT 0,           -- how often it was tried
    claim bigint NOT NULL DEFAULT 0,           -- raised by each worker that takes it: a slow one changes nothing more
    next_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it is tried again or looked at
    rule_id text,                              -- the rule that the catalogue made for it
    reason text,                               -- why it is not done
    created_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was written
    done_at timestamptz                        -- when it ended
) WITH (fillfactor = 70);
CREATE INDEX catalogue_requests_due ON catalogue_requests (next_at) WHERE status IN ('open', 'moving');
CREATE INDEX catalogue_requests_of_task ON catalogue_requests (task_id, request_id) WHERE status IN ('open', 'moving');
CREATE UNIQUE INDEX catalogue_requests_once ON catalogue_requests (task_id, kind, subject)
    WHERE status = 'open' AND kind IN ('read', 'keep');
CREATE INDEX catalogue_requests_read ON catalogue_requests (vo, subject, done_at) WHERE kind = 'read';
CREATE INDEX catalogue_requests_rule ON catalogue_requests (rule_id) WHERE status = 'moving';
CREATE INDEX catalogue_requests_ended ON catalogue_requests (done_at) WHERE status IN ('done', 'failed');

-- Whether the report of a job that is holding waits for us: its pilot said how it ended, and its outputs are not
-- registered, wherever the message about them is; or they are to be added to a catalogue outside, or that message is not
-- handled. Indexes job_reports_pkey, catalogue_requests_of_task, deferred_messages_tasks, parked_messages_tasks.
CREATE FUNCTION orrery_report_waits(of_task bigint, of_job bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM job_reports r WHERE r.job_id = of_job AND r.state IN ('finished', 'failed'))
        OR EXISTS (SELECT FROM catalogue_requests c
                    WHERE c.task_id = of_task AND c.status IN ('open', 'moving') AND c.kind = 'add_files'
                      AND c.details -> 'job_ids' @> to_jsonb(of_job))
        OR EXISTS (SELECT FROM deferred_messages d
                    WHERE d.task_ids @> ARRAY[of_task] AND d.task_ids <> '{}'
                      AND d.routing_key IN ('outputs.produced.v1', 'outputs.registered.v1'))
        OR EXISTS (SELECT FROM parked_messages d
                    WHERE d.task_ids @> ARRAY[of_task] AND d.task_ids <> '{}' AND d.replayed_at IS NULL
                      AND d.routing_key IN ('outputs.produced.v1', 'outputs.registered.v1'))
$$;

-- Whether the work of a job could go to no other queue: it merges what was made there, or its task names one queue.
CREATE FUNCTION orrery_is_bound(job_type text, site text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT job_type = 'merge' OR coalesce(site, '') <> '' AND site NOT LIKE '%,%'
$$;

-- When the work of a waiting job was last taken, as these codes say, from the queue where it is again; NULL: not since then.
CREATE FUNCTION orrery_taken_from(its_queue text, waiting bigint, codes int[], since timestamptz)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT max(o.end_time) FROM job_retry_history h
      JOIN (SELECT job_id, queue, error_source, error_code, end_time FROM jobs
            UNION ALL
            -- archived after it ended: only the partitions since then are opened
            SELECT job_id, queue, error_source, error_code, end_time FROM jobs_archive WHERE archived_at > since) o
        ON o.job_id = h.old_job_id
     WHERE h.new_job_id = waiting AND o.queue = its_queue AND o.error_source = 'watchdog'
       AND o.error_code = ANY(codes) AND o.end_time > since
$$;

-- When one of the jobs that were made together for a queue last went on, of each of these groups in which one did since
-- then. Those that were taken away, failed or are with a pilot that prepares did not. Indexes jobs_groups, jobs_archive_task.
CREATE FUNCTION orrery_groups_moved(tasks bigint[], chunks bigint[], queues text[], since timestamptz)
RETURNS TABLE (task_id bigint, chunk_id bigint, queue text, moved_at timestamptz) LANGUAGE sql STABLE AS $$
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT a.task_id, a.chunk_id, a.queue FROM unnest(tasks, chunks, queues) AS a (task_id, chunk_id, queue)
    ), moved AS (
        SELECT a.task_id, a.chunk_id, a.queue, j.state_change_time
          FROM asked a JOIN jobs j ON j.queue = a.queue AND j.chunk_id = a.chunk_id AND j.task_id = a.task_id
         WHERE orrery_is_analysis(NULL, j.prod_source_label) AND j.status NOT IN ('closed', 'failed', 'starting')
           AND j.state_change_time > since
        UNION ALL
        SELECT j.task_id, j.chunk_id, j.queue, j.state_change_time FROM jobs_archive j
         WHERE j.task_id = ANY(tasks) AND j.status NOT IN ('closed', 'failed') AND j.archived_at > since
           AND j.state_change_time > since)
    SELECT m.task_id, m.chunk_id, m.queue, max(m.state_change_time)
      FROM moved m JOIN asked USING (task_id, chunk_id, queue) GROUP BY 1, 2, 3
$$;

-- When a job was last activated. Indexes transition_log_entity, transition_log_batches of its days.
CREATE FUNCTION orrery_activated_at(asked bigint, created timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT max(at) FROM (
        SELECT at FROM transition_log
         WHERE entity = 'job' AND entity_id = asked AND to_status = 'activated' AND at >= created
        UNION ALL
        SELECT at FROM transition_log
         WHERE entity = 'job' AND entity_ids @> ARRAY[asked] AND to_status = 'activated' AND at >= created) activated
$$;

-- What time-out rules ask about a live job; what no rule asks in its state is not looked up. `merges_before`: whoever wrote
-- the input of a merge job and changed since then may still wait for it. `back_since`: work that was taken from the queue
-- since then by rebrokerage (codes 105, 130) and came back is told, with the time when it was.
CREATE FUNCTION orrery_asked_of_job(asked bigint, merges_before timestamptz, es_priority int, back_since timestamptz)
RETURNS TABLE (job_id bigint, status text, creation_time timestamptz, state_change_time timestamptz,
               heartbeat_at timestamptz, current_priority int, prod_source_label text, queue text, job_type text, vo text,
               deadline_at timestamptz, stays boolean, own_stage_out boolean, producers_gone boolean,
               report_waits boolean, in_job_set boolean, task_id bigint, chunk_id bigint, working_group text,
               is_bound boolean, taken_at timestamptz, activated_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT j.job_id, j.status, j.creation_time, j.state_change_time, j.heartbeat_at, j.current_priority,
           j.prod_source_label, j.queue, j.job_type, coalesce(t.vo, ''), j.deadline_at,
           coalesce(t.split_rule ? 'disableReassign', false),
           j.status = 'transferring' AND EXISTS (
               SELECT FROM job_reports r WHERE r.job_id = j.job_id AND r.report ->> 'job_sub_status' <> ''),
           CASE WHEN j.job_type = 'merge' THEN coalesce(orrery_merges_for_nobody(j.job_id, merges_before), false)
                ELSE false END,
           CASE WHEN j.status = 'holding' THEN orrery_report_waits(j.task_id, j.job_id) ELSE false END,
           j.status IN ('starting', 'running') AND EXISTS (
               SELECT FROM job_set_jobs m
                WHERE m.job_id = j.job_id AND m.sub_status IS NULL
                  AND (m.role = 'merge' OR m.role = 'consumer' AND j.current_priority >= es_priority)),
           j.task_id, j.chunk_id, coalesce(t.working_group, ''), orrery_is_bound(j.job_type, t.site),
           CASE WHEN j.status IN ('defined', 'assigned', 'activated', 'starting')
                     AND orrery_is_analysis(NULL, j.prod_source_label)
                THEN orrery_taken_from(j.queue, j.job_id, '{105,130}', back_since) END,
           CASE WHEN j.status = 'starting' AND orrery_is_analysis(NULL, j.prod_source_label)
                THEN orrery_activated_at(j.job_id, j.creation_time) END
      FROM jobs j LEFT JOIN tasks t USING (task_id) WHERE j.job_id = asked
$$;
