-- name: secrets_of
-- What one person keeps.
SELECT key, value FROM user_secrets WHERE owner = :owner ORDER BY key;

-- name: set_secret
-- A new value, or a new key while there are not too many.
INSERT INTO user_secrets (owner, key, value)
SELECT :owner::text, :key::text, :value::text
 WHERE (SELECT count(*) FROM user_secrets WHERE owner = :owner AND key <> :key) < :at_most::int
ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at
RETURNING key;

-- name: forget_secret
-- The key and its value.
DELETE FROM user_secrets WHERE owner = :owner AND key = :key RETURNING key;

-- name: forget_secrets
-- Every key of one person.
DELETE FROM user_secrets WHERE owner = :owner;

-- name: letters_of
-- The special permissions of a user.
SELECT grid_pref FROM users WHERE user_name = :user_name;
