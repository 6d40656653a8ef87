-- name: add_requests
-- What is wanted of a catalogue; what is open already is not asked for twice.
-- done for: COMMANDS, PRODUCTION
INSERT INTO catalogue_requests (vo, task_id, kind, subject, details)
SELECT :vo, :task_id, :kind, new.subject, new.details
  FROM unnest(:subjects::text[], :details::jsonb[]) WITH ORDINALITY AS new (subject, details, position)
 ORDER BY new.position
ON CONFLICT (task_id, kind, subject) WHERE status = 'open' AND kind IN ('read', 'keep') DO NOTHING;

-- name: unread
-- Of these names, those that were not read lately, with why the last attempt failed. Index catalogue_requests_read.
SELECT wanted.name,
       (SELECT r.reason FROM catalogue_requests r
         WHERE r.vo = :vo AND r.kind = 'read' AND r.subject = wanted.name AND r.status = 'open' AND r.reason IS NOT NULL
         ORDER BY r.request_id LIMIT 1) AS reason
  FROM unnest(:names::text[]) AS wanted (name)
 WHERE NOT EXISTS (SELECT FROM catalogue_requests r
                    WHERE r.vo = :vo AND r.kind = 'read' AND r.subject = wanted.name AND r.status = 'done'
                      AND r.done_at > orrery_now() - make_interval(secs => :fresh_for_s::double precision))
 ORDER BY wanted.name;

-- name: jobs_being_registered
-- Of these jobs, those whose outputs somebody is about to register. Index catalogue_requests_of_task.
SELECT DISTINCT asked.job_id::bigint AS job_id
  FROM catalogue_requests r CROSS JOIN LATERAL jsonb_array_elements_text(r.details -> 'job_ids') AS asked (job_id)
 WHERE r.task_id = ANY(:task_ids::bigint[]) AND r.kind = 'add_files' AND r.status = 'open'
   AND asked.job_id::bigint = ANY(:job_ids::bigint[]);

-- name: claim_requests
-- What is due, for one worker. Requests of a task that write wait for earlier ones of another kind; of those that read
-- the same dataset one goes first. Index catalogue_requests_due.
UPDATE catalogue_requests c
   SET claim = c.claim + 1, attempts = c.attempts + 1,
       next_at = orrery_now() + make_interval(secs => :lease_s::double precision)
  FROM (SELECT r.request_id FROM catalogue_requests r
         WHERE r.status IN ('open', 'moving') AND r.next_at <= orrery_now() AND r.vo = ANY(:vos::text[])
           AND (r.status = 'moving' OR NOT EXISTS (
                SELECT FROM catalogue_requests e
                 WHERE e.status = 'open' AND e.request_id < r.request_id
                   AND CASE WHEN r.kind = 'read' THEN e.kind = 'read' AND e.vo = r.vo AND e.subject = r.subject
                            ELSE e.task_id = r.task_id AND e.kind NOT IN ('read', r.kind) END))
         ORDER BY r.next_at, r.request_id LIMIT :at_most::int FOR UPDATE SKIP LOCKED) due
 WHERE c.request_id = due.request_id
RETURNING c.request_id, c.vo, c.task_id, c.kind, c.subject, c.details, c.status, c.attempts, c.claim, c.rule_id,
          c.created_at;

-- name: end_request
-- Compare-and-set by the worker that has the claim.
UPDATE catalogue_requests
   SET status = :status, reason = :reason, done_at = orrery_now(), rule_id = coalesce(:rule_id, rule_id)
 WHERE request_id = :request_id AND claim = :claim AND status IN ('open', 'moving') RETURNING request_id;

-- name: put_off_request
-- Not done, and why; it is taken up again after so long.
UPDATE catalogue_requests
   SET status = :status, reason = :reason, rule_id = coalesce(:rule_id, rule_id), attempts = :attempts,
       next_at = orrery_now() + make_interval(secs => :wait_s::double precision)
 WHERE request_id = :request_id AND claim = :claim AND status IN ('open', 'moving') RETURNING request_id;

-- name: readers
-- Tasks that wait for a dataset to be read. Index catalogue_requests_read.
SELECT DISTINCT task_id FROM catalogue_requests
 WHERE vo = :vo AND kind = 'read' AND subject = :subject AND status = 'open' ORDER BY task_id;

-- name: look_sooner
-- Rules of which something was said are looked at now. Index catalogue_requests_rule.
-- done for: PRODUCTION
UPDATE catalogue_requests SET next_at = orrery_now()
 WHERE rule_id = ANY(:rule_ids::text[]) AND status = 'moving' AND vo = ANY(:vos::text[]) RETURNING rule_id;

-- name: forget_requests
-- What ended long ago. Index catalogue_requests_ended.
DELETE FROM catalogue_requests WHERE request_id IN (
    SELECT request_id FROM catalogue_requests
     WHERE status IN ('done', 'failed') AND done_at < orrery_now() - make_interval(secs => :older_than_s::double precision)
     ORDER BY done_at LIMIT :at_most::int);

-- name: open_requests
-- What is wanted of catalogues and not done, the oldest first, for people. Index catalogue_requests_due.
-- told by: MEMBERS
SELECT request_id, vo, task_id, kind, subject, status, attempts, reason, next_at, rule_id, created_at
  FROM catalogue_requests
 WHERE status IN ('open', 'moving') AND vo = ANY(:vos::text[])
 ORDER BY request_id LIMIT :at_most::int;

-- name: scopes_of
-- Datasets by name with their scopes, and whether they may be deleted some time.
SELECT name, scope, expires_at IS NOT NULL AS expires FROM catalogue.datasets WHERE name = ANY(:names::text[]) ORDER BY name;

-- name: belong_to
-- These datasets are registered in a VO's catalogue outside as well.
-- done for: COMMANDS
UPDATE catalogue.datasets SET vo = :vo WHERE name = ANY(:names::text[]) AND vo IS NULL;

-- name: group_transfers
-- Requested transfers of tasks whose VO has a catalogue outside, locked in order of id.
SELECT x.transfer_id, x.task_id, t.vo, x.direction, x.activity, x.destination_storage
  FROM transfers x JOIN tasks t USING (task_id)
 WHERE x.transfer_id = ANY(:transfer_ids::bigint[]) AND x.status = 'requested' AND t.vo = ANY(:vos::text[])
 ORDER BY x.transfer_id FOR UPDATE OF x;

-- name: add_move
-- A request to move data.
-- done for: COMMANDS
INSERT INTO catalogue_requests (vo, task_id, kind, subject, details)
VALUES (:vo, :task_id, 'move', :storage, :details::jsonb) RETURNING request_id;

-- name: begin_transfers
-- Transfers are part of a request; when they end is not known.
-- done for: COMMANDS
UPDATE transfers SET status = 'active', request_id = :request_id
 WHERE transfer_id = ANY(:transfer_ids::bigint[]) AND status = 'requested';

-- name: transfers_of_request
-- What a request still has to move, with whether the job waits for it. Index transfers_of_request.
SELECT x.transfer_id, x.job_id, x.direction, x.destination_storage,
       EXISTS (SELECT FROM jobs j WHERE j.job_id = x.job_id
                  AND j.status = CASE x.direction WHEN 'input' THEN 'assigned' ELSE 'transferring' END) AS is_wanted
  FROM transfers x WHERE x.request_id = :request_id AND x.status = 'active' ORDER BY x.transfer_id;

-- name: is_used_by_jobs
-- Whether something came by the rule of a request before the rest of it, and is still needed: input for one use that was
-- not deleted after it, or outputs. Indexes brought_copies_of_request, transfers_of_request.
SELECT EXISTS (SELECT FROM catalogue.brought_copies b WHERE b.request_id = :request_id)
    OR EXISTS (SELECT FROM transfers x
                WHERE x.request_id = :request_id AND x.status = 'done' AND x.direction = 'output');

-- name: files_to_move
-- The files behind a request's transfers: inputs, or final outputs, of their jobs. Indexes task_files_producer,
-- job_files_pkey.
SELECT DISTINCT x.transfer_id, x.job_id, d.dataset_name, coalesce(f.scope, c.scope, d.scope) AS scope, f.lfn,
       coalesce(c.scope, d.scope) AS dataset_scope,
       x.direction = 'input' AND coalesce(d.attributes ->> 'manytime', '') <> 'true' AS is_for_one_use
  FROM transfers x
  CROSS JOIN LATERAL (
       SELECT o.dataset_id, o.scope, o.lfn FROM task_files o WHERE x.direction = 'output' AND o.out_job_id = x.job_id
       UNION ALL
       SELECT i.dataset_id, i.scope, i.lfn FROM job_files jf JOIN task_files i USING (file_id)
        WHERE x.direction <> 'output' AND jf.job_id = x.job_id) f
  JOIN task_datasets d ON d.dataset_id = f.dataset_id
  LEFT JOIN catalogue.datasets c ON c.name = d.dataset_name
 WHERE x.request_id = :request_id AND x.status = 'active'
   AND CASE WHEN x.direction = 'output' THEN d.type IN ('output', 'log') ELSE d.type = 'input' END
 ORDER BY x.transfer_id, d.dataset_name, f.lfn;

-- name: end_transfers
-- Transfers of a request that ended.
UPDATE transfers SET status = :status, completed_at = orrery_now(), error = :error
 WHERE transfer_id = ANY(:transfer_ids::bigint[]) AND status = 'active' RETURNING transfer_id, job_id;

-- name: task_of_request
-- What the worker needs of a task.
SELECT task_id, vo, status, coalesce(current_priority, 0) AS current_priority, nucleus,
       split_rule ->> 'destination' AS destination
  FROM tasks WHERE task_id = :task_id;

-- name: has_outputs_by_expression
-- Whether a task has outputs that are named by an expression. Index output_templates_task.
SELECT EXISTS (SELECT FROM output_templates WHERE task_id = :task_id AND file_name_template LIKE :begins);
