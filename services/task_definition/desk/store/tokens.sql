-- name: revoke
-- A token, or all that a subject got so far, is no longer believed: until it has expired for certain, and no session is
-- renewed any more that had it.
-- done for: OWN
INSERT INTO revocations (kind, name, until, revoked_by, reason)
VALUES (:kind, :name,
        CASE WHEN :expires_at::float8 IS NULL THEN orrery_now() + make_interval(secs => :kept_s::float8)
             ELSE greatest(to_timestamp(:expires_at::float8),
                           orrery_now() + make_interval(secs => :renewed_s::float8)) END,
        :revoked_by, :reason)
ON CONFLICT (kind, name) DO UPDATE
   SET revoked_at = excluded.revoked_at, until = greatest(revocations.until, excluded.until),
       revoked_by = excluded.revoked_by, reason = excluded.reason;

-- name: forget_over
-- Revocations of tokens that have expired since, so long ago that they tell the end of no job any more.
-- done for: OWN
DELETE FROM revocations WHERE until <= orrery_now() - make_interval(secs => :expired_within_s);

-- name: next_version
-- Revocations changed: every process reads them again.
-- done for: OWN
UPDATE versions SET version = version + 1, changed_at = orrery_now() WHERE name = 'revocations' RETURNING version;

-- name: config_version
-- The version of the parameters, which the news of revocations repeats.
-- told by: STATES
SELECT version FROM versions WHERE name = 'config';

-- name: was_revoked
-- Whether what a subject got at some time, in seconds since the epoch, is revoked, or a token with one of these marks.
-- told by: OWN
SELECT EXISTS (SELECT FROM revocations
                WHERE kind = 'subject' AND name = :subject AND until > orrery_now()
                  AND revoked_at >= to_timestamp(:issued_at::float8))
    OR EXISTS (SELECT FROM revocations
                WHERE kind = 'token' AND until > orrery_now()
                  AND left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), :n_characters) = ANY(:marks::text[]));

-- name: revoked
-- What is revoked, the newest first.
-- told by: OPERATORS
SELECT kind, name, revoked_at, until, revoked_by, reason FROM revocations
 WHERE until > orrery_now() ORDER BY revoked_at DESC, kind, name LIMIT :at_most::int;
