-- name: timeout_rules
-- The rules that VOs added, in the order in which each VO gave them.
-- told by: MEMBERS
SELECT rule, vo, data FROM timeout_rules ORDER BY vo, place;
