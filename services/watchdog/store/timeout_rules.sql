-- name: lock_timeout_rules
-- Sets of two VOs are put one after the other: a name belongs to one rule.
-- told by: nobody; it is a lock
SELECT pg_advisory_xact_lock(hashtext('timeout_rules'));

-- name: forget_rules_of_vo
-- All rules that the VO added.
-- done for: OPERATORS
DELETE FROM timeout_rules WHERE vo = :vo;

-- name: put_rules
-- The rules that a VO adds, in their order.
-- done for: OPERATORS
INSERT INTO timeout_rules (rule, vo, place, data)
SELECT r.rule, :vo, r.place, r.data
  FROM unnest(:rules::text[], :data::jsonb[]) WITH ORDINALITY AS r (rule, data, place);
