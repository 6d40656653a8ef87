-- name: retry_rules
-- All of them, in the order of their numbers.
-- told by: STATES
SELECT rule_id, source, code, pattern, action, parameters, architecture, release, work_queue_id, expires_at, is_active,
       note
  FROM retry_rules ORDER BY rule_id;

-- name: jobs_of_retry_rules
-- How many failed jobs each rule decided about, as long as that is known.
-- told by: STATES
SELECT rule_id, count(*) AS n_jobs FROM retry_decisions GROUP BY rule_id;

-- name: remove_other_retry_rules
-- Those that are left out.
-- done for: OPERATORS
DELETE FROM retry_rules WHERE rule_id <> ALL(:rule_ids::int[]);

-- name: remove_retry_rule
-- One of them.
-- done for: OPERATORS
DELETE FROM retry_rules WHERE rule_id = :rule_id RETURNING rule_id;

-- name: put_retry_rules
-- Each in the place of the one with its number.
-- done for: OPERATORS
INSERT INTO retry_rules (rule_id, source, code, pattern, action, parameters, architecture, release, work_queue_id,
                         expires_at, is_active, note)
SELECT * FROM unnest(:rule_ids::int[], :sources::text[], :codes::int[], :patterns::text[], :actions::text[],
                     :parameters::jsonb[], :architectures::text[], :releases::text[], :work_queue_ids::int[],
                     :expire_at::timestamptz[], :are_active::boolean[], :notes::text[])
ON CONFLICT (rule_id) DO UPDATE
SET source = excluded.source, code = excluded.code, pattern = excluded.pattern, action = excluded.action,
    parameters = excluded.parameters, architecture = excluded.architecture, release = excluded.release,
    work_queue_id = excluded.work_queue_id, expires_at = excluded.expires_at, is_active = excluded.is_active,
    note = excluded.note;

-- name: record_audit
-- Who changed rules, and into what.
-- done for: OPERATORS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles, :verb, 'retry rules', 'accepted', :details);

-- name: add_retry_decisions
-- What rules decided about jobs that failed; a job fails once.
INSERT INTO retry_decisions (job_id, task_id, rule_id, action, is_active, reason)
SELECT n.job_id, :task_id, n.rule_id, n.action, n.is_active, n.reason
  FROM unnest(:job_ids::bigint[], :rule_ids::int[], :actions::text[], :are_active::boolean[], :reasons::text[])
       AS n (job_id, rule_id, action, is_active, reason)
ON CONFLICT (job_id) DO NOTHING;

-- name: forget_retry_decisions
-- Decisions that are as old as the texts of jobs that are forgotten. Index retry_decisions_age.
DELETE FROM retry_decisions d
 USING (SELECT job_id FROM retry_decisions WHERE decided_at < :before ORDER BY decided_at LIMIT :count) old
 WHERE d.job_id = old.job_id;
