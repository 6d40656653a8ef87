-- People: what is said of users and their groups, their secrets, and tokens that are no longer believed.

-- What is said of a user, for one VO or for all: the record of the VO wins.
CREATE TABLE users (
    user_name text NOT NULL,                   -- the user
    vo text NOT NULL DEFAULT '',               -- the VO; '': for all VOs
    grid_pref text NOT NULL DEFAULT '',        -- letters for what the user may do (PanDA: gridpref)
    disk_quota_gb double precision,            -- disk that outputs may take; NULL: no limit
    disk_used_gb double precision,             -- disk that they take
    data jsonb NOT NULL DEFAULT '{}',          -- what else is said
    groups text[] NOT NULL DEFAULT '{}',       -- groups of users that the user is in
    -- 1 + quota divides what counts against the user when priorities are balanced
    quota double precision NOT NULL DEFAULT 0 CHECK (quota >= 0),
    -- how far the user is over the quota
    priority_weight double precision NOT NULL DEFAULT 0 CHECK (priority_weight >= 0),
    cap_running_jobs int CHECK (cap_running_jobs > 0),     -- jobs that may run at once; NULL: as for everybody
    cap_running_cores int CHECK (cap_running_cores > 0),   -- cores of theirs; NULL: as for everybody
    PRIMARY KEY (user_name, vo)
);

-- The record that holds for a user in a VO.
CREATE FUNCTION orrery_account(user_name text, vo text) RETURNS SETOF users LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT u.* FROM users u WHERE u.user_name = $1 AND u.vo IN (coalesce($2, ''), '') ORDER BY u.vo = '' LIMIT 1
$$;

-- Live jobs of a person in one VO.
CREATE FUNCTION orrery_jobs_of_account(user_name text, vo text)
RETURNS TABLE (queue text, resource_type text, gshare text, status text, n_jobs bigint, n_cores bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.queue, s.resource_type, s.gshare, s.status, s.n_jobs, s.n_cores
      FROM queue_statistics s WHERE s.user_name = $1 AND s.vo = coalesce($2, '')
$$;

-- Groups of users: what each is due, and how it is divided (DIRAC: Priority implementation).
CREATE TABLE user_groups (
    name text NOT NULL,                        -- the group
    vo text NOT NULL,                          -- its VO
    job_share double precision NOT NULL DEFAULT 1000 CHECK (job_share >= 0),   -- what it is due
    job_sharing boolean NOT NULL DEFAULT false,         -- the group's share is not divided among its users
    allows_background boolean NOT NULL DEFAULT false,   -- jobs of a very low user priority may wait for all others
    PRIMARY KEY (vo, name)
);

-- What people keep for the payloads of their tasks in one VO, encrypted.
CREATE TABLE user_secrets (
    owner text NOT NULL,                       -- whose it is
    vo text NOT NULL,                          -- for tasks of this VO
    key text NOT NULL,                         -- its name
    key_id text NOT NULL,                      -- the key that it is encrypted with
    sealed bytea NOT NULL,                     -- the encrypted value
    for_pilots boolean NOT NULL DEFAULT false, -- for pilots of a queue that names its owner (PILOT_SECRETS)
    changed_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when it was given
    PRIMARY KEY (owner, vo, key)
);

-- Tokens that are no longer believed: one by its id, or all that a subject got before a time.
CREATE TABLE revocations (
    kind text NOT NULL CHECK (kind IN ('token', 'subject')),   -- which of the two
    name text NOT NULL CHECK (name <> ''),     -- the token's id, or the subject
    revoked_at timestamptz NOT NULL DEFAULT orrery_now(),   -- when: later tokens of a subject are believed
    until timestamptz NOT NULL,                -- when the last such token has expired: the row means nothing any more
    revoked_by text NOT NULL,                  -- by whom
    reason text NOT NULL DEFAULT '',           -- why
    PRIMARY KEY (kind, name)
);

-- Whether a queue, an account or a scope of the catalogue names a VO: the first row that does is enough.
CREATE FUNCTION orrery_is_known_vo(wanted text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (SELECT FROM catalogue.scopes WHERE vo = wanted) OR EXISTS (SELECT FROM users WHERE vo = wanted)
        OR EXISTS (SELECT FROM queues_in_force q
                    CROSS JOIN LATERAL regexp_split_to_table(CASE jsonb_typeof(q.data -> 'vo_name')
                        WHEN 'array' THEN (SELECT string_agg(name, ',')
                                             FROM jsonb_array_elements_text(q.data -> 'vo_name') name)
                        ELSE q.data ->> 'vo_name' END, ',') AS one WHERE trim(both ' ' FROM one) = wanted)
$$;
