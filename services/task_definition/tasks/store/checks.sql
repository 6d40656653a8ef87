-- name: due_checks
-- Input to be looked at, what waited longest first: open input that grew or was closed, soon; all other input from time to time. `has_changed`: the
-- catalogue has other contents or another state than those that were read; `has_new_parts`: its container has datasets
-- that the task has not. A task whose input is being staged is looked at until it is. Indexes task_datasets_open, task_datasets_check.
WITH soon AS (
        SELECT d.dataset_id FROM task_datasets d JOIN catalogue.datasets c ON c.name = d.dataset_name
         WHERE d.state_check_expiration IS NOT NULL AND d.state = 'open'
           AND d.state_check_time < orrery_now() - make_interval(secs => :soon_s::float8)
           AND (c.contents_version IS DISTINCT FROM d.contents_version OR c.state <> d.state)
         ORDER BY d.state_check_time LIMIT :at_most::int),
     open_input AS (
        SELECT dataset_id FROM task_datasets
         WHERE state_check_expiration IS NOT NULL AND state = 'open'
           AND state_check_time < orrery_now() - make_interval(secs => :open_s::float8)
         ORDER BY state_check_time LIMIT :at_most::int),
     closed_input AS (
        SELECT dataset_id FROM task_datasets
         WHERE state_check_expiration IS NOT NULL
           AND state_check_time < orrery_now() - make_interval(secs => :closed_s::float8)
         ORDER BY state_check_time LIMIT :at_most::int),
     due AS (SELECT * FROM soon UNION SELECT * FROM open_input UNION SELECT * FROM closed_input)
SELECT d.dataset_id, d.task_id, d.vo, d.state_check_time, coalesce(d.container_name, d.dataset_name) AS asked_for,
       d.state_check_expiration < orrery_now() AND t.status <> 'staging' AS is_over,
       c.contents_version IS DISTINCT FROM d.contents_version OR c.state IS DISTINCT FROM d.state AS has_changed,
       d.container_name IS NOT NULL AND EXISTS (
           SELECT FROM catalogue.datasets k JOIN catalogue.containers p ON p.container_id = k.dataset_id
             JOIN catalogue.datasets part ON part.dataset_id = p.dataset_id
            WHERE k.name = d.container_name
              AND NOT EXISTS (SELECT FROM task_datasets own
                               WHERE own.task_id = d.task_id AND own.dataset_name = part.name)) AS has_new_parts
  FROM due JOIN task_datasets d USING (dataset_id) JOIN tasks t USING (task_id) LEFT JOIN catalogue.datasets c
    ON c.name = d.dataset_name AND catalogue.may_be_read(c, d.vo)
 ORDER BY d.state_check_time, d.task_id, d.dataset_id;

-- name: checked
-- Input that was looked at; nobody waits here for who has a dataset. Those whose checks are over are not looked at again.
WITH free AS (
        SELECT dataset_id FROM task_datasets WHERE dataset_id = ANY(:dataset_ids::bigint[])
         ORDER BY dataset_id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE task_datasets d
   SET state_check_time = orrery_now(),
       state_check_expiration = CASE WHEN d.dataset_id = ANY(:over::bigint[]) THEN NULL ELSE d.state_check_expiration END
  FROM free WHERE d.dataset_id = free.dataset_id;
