-- name: audit
-- Who gave which command, for people.
-- done for: COMMANDS, OPERATORS, OWN, SUBMITTING, WRITERS
INSERT INTO audit_log (caller, roles, verb, target, outcome, details)
VALUES (:caller, :roles::text[], :verb, :target, :outcome, :details::jsonb);
