-- name: secrets_of
-- What one person keeps for a VO (access.OWN).
-- told by: OWN
SELECT key, key_id, sealed FROM user_secrets WHERE owner = :owner AND vo = :vo ORDER BY key;

-- name: secrets_of_pilots
-- What one person gave for the pilots of queues, in every VO.
-- told by: PILOTS
SELECT vo, key, key_id, sealed FROM user_secrets WHERE owner = :owner AND for_pilots ORDER BY vo, key;

-- name: listed_secrets
-- What one person keeps, without the values (access.OWN).
-- told by: OWN
SELECT vo, key, for_pilots, changed_at FROM user_secrets WHERE owner = :owner ORDER BY vo, key;

-- name: notes_for_owner
-- What others tried with the secrets of a person, the newest first (access.OWN). Index audit_log_target.
-- told by: OWN
SELECT at, caller, verb, details FROM audit_log WHERE target = :target ORDER BY at DESC LIMIT :at_most::int;

-- name: carries_secrets
-- Whether a job may carry its owner's secrets: without its specification nobody knows. By primary key.
-- told by: nobody; it decides what is told
SELECT coalesce((SELECT secrets_of IS NOT NULL FROM job_specs WHERE job_id = :job_id), true);

-- name: set_secret
-- A new value, or a new key while there are not too many.
-- done for: OWN
INSERT INTO user_secrets (owner, vo, key, key_id, sealed, for_pilots)
SELECT :owner::text, :vo::text, :key::text, :key_id::text, :sealed::bytea, :for_pilots::boolean
 WHERE (SELECT count(*) FROM user_secrets WHERE owner = :owner AND vo = :vo AND key <> :key) < :at_most::int
ON CONFLICT (owner, vo, key) DO UPDATE
   SET key_id = excluded.key_id, sealed = excluded.sealed, for_pilots = excluded.for_pilots,
       changed_at = excluded.changed_at
RETURNING key;

-- name: forget_secret
-- The key and its value.
-- done for: OWN
DELETE FROM user_secrets WHERE owner = :owner AND vo = :vo AND key = :key RETURNING key;

-- name: forget_secrets
-- Every key of one person in a VO.
-- done for: OWN
DELETE FROM user_secrets WHERE owner = :owner AND vo = :vo;

-- name: sealed_otherwise
-- The next secrets that another key than this one encrypts, in the order of the primary key; held until the commit.
SELECT owner, vo, key, key_id, sealed FROM user_secrets
 WHERE (owner, vo, key) > (:after_owner::text, :after_vo::text, :after_key::text) AND key_id <> :key_id
 ORDER BY owner, vo, key LIMIT :at_most::int FOR UPDATE;

-- name: seal_again
-- The same values, encrypted anew.
-- done for: OPERATORS, OWN
UPDATE user_secrets u SET key_id = w.key_id, sealed = w.sealed
  FROM unnest(:owners::text[], :vos::text[], :keys::text[], :key_ids::text[], :sealed::bytea[])
       AS w (owner, vo, key, key_id, sealed)
 WHERE u.owner = w.owner AND u.vo = w.vo AND u.key = w.key;

-- name: letters_of
-- The special permissions of a user in each of these VOs.
SELECT coalesce(u.grid_pref, '') AS grid_pref
  FROM unnest(:vos::text[]) AS v (vo) LEFT JOIN LATERAL orrery_account(:user_name::text, v.vo) u ON true;
