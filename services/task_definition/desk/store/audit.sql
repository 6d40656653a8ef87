-- name: audit
-- Who gave which command, for people.
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles::text[], :verb, :target, :outcome, :details::jsonb);
