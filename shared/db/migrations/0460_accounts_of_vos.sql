-- What is said of a user is said for one VO, or for all VOs (''): the record of the VO wins.
ALTER TABLE users ADD COLUMN vo text NOT NULL DEFAULT '';
ALTER TABLE users DROP CONSTRAINT users_pkey;
ALTER TABLE users ADD PRIMARY KEY (user_name, vo);

CREATE FUNCTION orrery_account(user_name text, vo text) RETURNS SETOF users LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT u.* FROM users u WHERE u.user_name = $1 AND u.vo IN (coalesce($2, ''), '') ORDER BY u.vo = '' LIMIT 1
$$;

-- Live jobs of a person in one VO. The statistics count by name alone: they are asked while no other VO has live tasks
-- under the name, else the jobs themselves.
CREATE INDEX tasks_of_live_users ON tasks (user_name, vo)
 WHERE status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted');
CREATE FUNCTION orrery_jobs_of_account(user_name text, vo text)
RETURNS TABLE (queue text, resource_type text, gshare text, status text, n_jobs bigint, n_cores bigint)
LANGUAGE sql STABLE AS $$
    WITH others AS (
        SELECT EXISTS (SELECT FROM tasks t
                        WHERE t.user_name = $1 AND coalesce(t.vo, '') <> coalesce($2, '')
                          AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')) AS found)
    SELECT s.queue, s.resource_type, s.gshare, s.status, s.n_jobs, s.n_cores
      FROM others o JOIN queue_statistics s ON NOT o.found AND s.user_name = $1
    UNION ALL
    SELECT j.queue, j.resource_type, j.gshare, j.status, count(*), coalesce(sum(j.core_count), 0)
      FROM others o JOIN tasks t ON o.found AND t.user_name = $1 AND coalesce(t.vo, '') = coalesce($2, '')
                     AND t.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted')
      JOIN jobs j ON j.task_id = t.task_id AND j.queue IS NOT NULL
                 AND j.status NOT IN ('finished', 'failed', 'closed', 'cancelled')
     GROUP BY j.queue, j.resource_type, j.gshare, j.status
$$;
