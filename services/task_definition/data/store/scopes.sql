-- name: owners_of_names
-- To whom these scopes belong, those of nobody left out, and the VOs of catalogues outside that have datasets of these
-- names, whose owner is NULL.
SELECT scope AS name, vo, owner FROM catalogue.scopes WHERE scope = ANY(:scopes::text[])
UNION ALL SELECT name, vo, NULL FROM catalogue.datasets WHERE name = ANY(:names::text[]) AND vo IS NOT NULL;

-- name: take_scopes
-- New scopes, in order of name: of two who take one at once the second waits for the first, and gets none.
-- done for: SUBMITTING, WRITERS
INSERT INTO catalogue.scopes (scope, vo, owner, claimed_by)
SELECT new.scope, :vo, new.owner, :claimed_by FROM unnest(:scopes::text[], :owners::text[]) AS new (scope, owner)
 ORDER BY new.scope
ON CONFLICT (scope) DO NOTHING;

-- name: give_scope
-- An operator says to whom a scope belongs, whoever had it.
-- done for: OPERATORS
INSERT INTO catalogue.scopes (scope, vo, owner, claimed_by) VALUES (:scope, :vo, :owner, :claimed_by)
ON CONFLICT (scope) DO UPDATE
   SET vo = excluded.vo, owner = excluded.owner, claimed_by = excluded.claimed_by, claimed_at = orrery_now();

-- name: given_away
-- Of these names those that have come to belong to another VO.
SELECT n.name FROM unnest(:names::text[]) AS n (name)
  JOIN catalogue.scopes s ON s.scope = catalogue.owning_scope(n.name) AND s.vo NOT IN ('', :vo) ORDER BY n.name;

-- name: list_scopes
-- Scopes by name, for people: MEMBERS of their VOs.
-- told by: MEMBERS
SELECT s.scope, s.vo, s.owner, s.claimed_by, s.claimed_at FROM catalogue.scopes s
 WHERE (:pattern::text IS NULL OR s.scope LIKE :pattern) AND (:vos::text[] IS NULL OR s.vo = '' OR s.vo = ANY(:vos))
 ORDER BY s.scope LIMIT :at_most::int;

-- name: note_refused
-- Refused writes, one row of each scope, caller and kind, whatever was sent: nobody fills the table.
-- done for: SUBMITTING, WRITERS
INSERT INTO catalogue.refused_writes AS r (scope, caller, verb, dataset, cause, n_times)
SELECT new.scope, :caller, :verb, min(new.dataset), min(new.cause), count(*)
  FROM unnest(:scopes::text[], :datasets::text[], :causes::text[]) AS new (scope, dataset, cause)
 GROUP BY new.scope ORDER BY new.scope
ON CONFLICT (scope, caller, verb) DO UPDATE
   SET dataset = excluded.dataset, cause = excluded.cause, n_times = r.n_times + excluded.n_times,
       last_at = orrery_now();

-- name: refused_writes
-- What was refused in these VOs' scopes, the last first, for those who may write there: WRITERS.
-- told by: WRITERS
SELECT r.scope, s.vo, s.owner, r.dataset, r.verb, r.caller, r.cause, r.n_times, r.first_at, r.last_at
  FROM catalogue.refused_writes r JOIN catalogue.scopes s USING (scope)
 WHERE (:vos::text[] IS NULL OR s.vo = '' OR s.vo = ANY(:vos)) AND (:scope::text IS NULL OR r.scope = :scope)
 ORDER BY r.last_at DESC, r.scope, r.caller LIMIT :at_most::int;

-- name: open_datasets
-- Datasets and containers that everybody may read from now on, or no longer.
-- done for: WRITERS
UPDATE catalogue.datasets SET readable_by_all = :by_all WHERE name = ANY(:names::text[]);

-- name: look_at_readers
-- Tasks that read datasets which were closed to their VO look at them next. Index task_datasets_name.
-- done for: WRITERS
UPDATE task_datasets d
   SET state_check_time = '-infinity',
       state_check_expiration = coalesce(d.state_check_expiration, orrery_now() + interval '1 day')
  FROM catalogue.datasets c
 WHERE c.name = ANY(:names::text[]) AND d.dataset_name = c.name AND d.type = 'input'
   AND NOT catalogue.may_be_read(c, d.vo)
   AND EXISTS (SELECT FROM tasks t WHERE t.task_id = d.task_id
                  AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted'));
