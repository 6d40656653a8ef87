-- name: revocations_version
-- What to compare with the copy in memory.
-- told by: nobody; it decides who is believed
SELECT version FROM versions WHERE name = 'revocations';

-- name: revocations
-- What is revoked and not over, nor was when a token could expire that is still believed about the end of jobs; times in
-- seconds since the epoch.
-- told by: nobody; it decides who is believed
SELECT kind, name, extract(epoch FROM revoked_at)::float8 AS revoked_at, extract(epoch FROM until)::float8 AS until
  FROM revocations WHERE until > orrery_now() - make_interval(secs => :expired_within_s);
