-- What operators look at first: who is away, what waits too long, what is slow, what grows.

-- name: leases_by_service
-- Of each service: whether one of its copies holds the leases of its periodic work, and since when none does; how many
-- copies take messages. NULL: none of its queues is counted, as it has none, or the bus is within the process.
-- told by: OPERATORS
SELECT held.*, counted.n_copies
  FROM (SELECT split_part(name, '.', 1) AS service, count(*) FILTER (WHERE expires_at > orrery_now()) AS n_kept,
               max(expires_at) AS last_at, (array_agg(holder ORDER BY expires_at DESC))[1] AS holder
          FROM leases GROUP BY 1) held
  LEFT JOIN (SELECT split_part(consumer, '.', 1) AS service, max(n_consumers) AS n_copies
               FROM bus_queues WHERE looked_at > orrery_now() - interval '1 minute' GROUP BY 1) counted USING (service)
 ORDER BY service;

-- name: messages_waiting
-- Events that are not published, messages that come again, and those that were put aside.
-- told by: OPERATORS
SELECT (SELECT count(*) FROM outbox) AS n_unpublished, (SELECT min(created_at) FROM outbox) AS unpublished_since,
       (SELECT count(*) FROM deferred_messages) AS n_deferred,
       (SELECT min(created_at) FROM deferred_messages) AS deferred_since,
       (SELECT count(*) FROM parked_messages WHERE replayed_at IS NULL) AS n_parked,
       (SELECT min(parked_at) FROM parked_messages WHERE replayed_at IS NULL) AS parked_since;

-- name: deferred_by_consumer
-- Which consumers put messages off, with what one of them said last.
-- told by: OPERATORS
SELECT consumer, count(*) AS n_messages, max(attempts) AS most_attempts, min(created_at) AS since,
       (array_agg(reason ORDER BY deferred_id DESC))[1] AS reason
  FROM deferred_messages GROUP BY consumer ORDER BY count(*) DESC, consumer LIMIT 10;

-- name: bus_queues
-- What waits in the queues of the bus, those with most first, and since when they were never seen empty. Who was not
-- counted for long has no consumer.
-- told by: OPERATORS
SELECT consumer, n_waiting, CASE WHEN looked_at > orrery_now() - interval '1 minute' THEN n_consumers ELSE 0 END AS n_consumers,
       waiting_since, looked_at
  FROM bus_queues WHERE looked_at > orrery_now() - interval '1 day' ORDER BY n_waiting DESC, consumer LIMIT :at_most::int;

-- name: live_tasks_by_status
-- Tasks in each of these states, of each up to so many. Index tasks_by_status.
-- told by: OPERATORS
SELECT s.status, counted.n_tasks FROM unnest(:statuses::text[]) AS s (status)
 CROSS JOIN LATERAL (SELECT count(*) AS n_tasks
                       FROM (SELECT FROM tasks t WHERE t.status = s.status
                              ORDER BY t.task_type, t.current_priority DESC, t.task_id LIMIT :at_most::int) few) counted
 WHERE counted.n_tasks > 0 ORDER BY s.status;

-- name: jobs_by_status
-- Live jobs by state, as the statistics count them.
-- told by: OPERATORS
SELECT status, greatest(sum(n_jobs), 0)::bigint AS n_jobs FROM queue_statistics
 WHERE status NOT IN ('finished', 'failed', 'closed', 'cancelled') GROUP BY status HAVING sum(n_jobs) > 0 ORDER BY status;

-- name: jobs_too_long
-- Jobs that are longer in a state than is usual, of each state up to so many. Index jobs_passing.
-- told by: OPERATORS
SELECT s.status, s.usual_s, count(*) AS n_jobs, min(j.state_change_time) AS since
  FROM unnest(:statuses::text[], :usual_s::float8[]) AS s (status, usual_s)
 CROSS JOIN LATERAL (
    SELECT state_change_time FROM jobs
     WHERE jobs.status = s.status AND state_change_time < orrery_now() - make_interval(secs => s.usual_s)
       AND jobs.status IN ('pending', 'defined', 'assigned', 'holding', 'transferring', 'merging')
     ORDER BY state_change_time LIMIT :at_most::int) j
 GROUP BY 1, 2 ORDER BY min(j.state_change_time);

-- name: jobs_not_asked
-- Jobs about which time-out rules should have been asked by now, up to so many. Index jobs_deadline.
-- told by: OPERATORS
SELECT count(*) AS n_jobs, min(deadline_at) AS since FROM (
    SELECT deadline_at FROM jobs WHERE deadline_at < orrery_now() - make_interval(secs => :usual_s)
     LIMIT :at_most::int) due;

-- name: tasks_too_long
-- Tasks that are longer in a passing state than is usual, of each state up to so many, and the one that is longest in it.
-- Index tasks_passing: each of these states is in it.
-- told by: OPERATORS
SELECT s.status, s.usual_s, counted.n_tasks, longest.state_change_time AS since, longest.task_id AS example
  FROM unnest(:statuses::text[], :usual_s::float8[]) AS s (status, usual_s)
 CROSS JOIN LATERAL (
        SELECT task_id, state_change_time FROM tasks
         WHERE tasks.status = s.status AND state_change_time < orrery_now() - make_interval(secs => s.usual_s)
           AND tasks.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running')
         ORDER BY state_change_time, task_id LIMIT 1) longest
 CROSS JOIN LATERAL (
        SELECT count(*) AS n_tasks FROM (
               SELECT FROM tasks
                WHERE tasks.status = s.status AND state_change_time < orrery_now() - make_interval(secs => s.usual_s)
                  AND tasks.status NOT IN ('done', 'finished', 'failed', 'broken', 'aborted', 'ready', 'scouting', 'running')
                ORDER BY state_change_time, task_id LIMIT :at_most::int) few) counted
 ORDER BY longest.state_change_time;

-- name: chunks_too_long
-- Chunks for which no queue was looked for since. Index chunks_open.
-- told by: OPERATORS
SELECT count(*) AS n_chunks, min(offered_at) AS since, min(task_id) AS example FROM chunks
 WHERE status = 'offered' AND retry_at IS NULL AND offered_at < orrery_now() - make_interval(secs => :usual_s);

-- name: transfers_too_long
-- Transfers that nobody began, and those that are overdue by a day. Indexes transfers_requested, transfers_due.
-- told by: OPERATORS
SELECT (SELECT count(*) FROM transfers WHERE status = 'requested'
           AND requested_at < orrery_now() - make_interval(secs => :usual_s)) AS n_requested,
       (SELECT min(requested_at) FROM transfers WHERE status = 'requested') AS requested_since,
       (SELECT count(*) FROM transfers WHERE status = 'active' AND due_at < orrery_now() - interval '1 day') AS n_overdue,
       (SELECT min(due_at) FROM transfers WHERE status = 'active') AS overdue_since;

-- name: requests_refused
-- What catalogues outside refuse again and again. Index catalogue_requests_due.
-- told by: OPERATORS
SELECT vo, count(*) AS n_requests, min(created_at) AS since, (array_agg(reason ORDER BY request_id DESC))[1] AS reason
  FROM catalogue_requests WHERE status IN ('open', 'moving') AND attempts >= 3 AND reason IS NOT NULL
 GROUP BY vo ORDER BY vo;

-- name: results_not_applied
-- Jobs that ended and are not counted yet. Index jobs_unapplied.
-- told by: OPERATORS
SELECT count(*) AS n_jobs, min(state_change_time) AS since FROM (
    SELECT state_change_time FROM jobs
     WHERE results_applied_at IS NULL AND status IN ('finished', 'failed', 'closed', 'cancelled')
       AND state_change_time < orrery_now() - make_interval(secs => :usual_s) LIMIT :at_most::int) ended;

-- name: queues_without_pilots
-- Queues where jobs wait for pilots and none asked within the last hour, those with most jobs first.
-- told by: OPERATORS
SELECT s.queue, sum(s.n_jobs)::bigint AS n_jobs, a.last_pilot_at FROM queue_statistics s
  LEFT JOIN queue_activity a USING (queue)
 WHERE s.status = 'activated' AND (a.last_pilot_at IS NULL OR a.last_pilot_at < orrery_now() - interval '1 hour')
 GROUP BY s.queue, a.last_pilot_at HAVING sum(s.n_jobs) > 0 ORDER BY sum(s.n_jobs) DESC, s.queue LIMIT :at_most::int;

-- name: old_snapshots
-- Sessions that read the database as it was long ago, transactions that were prepared and not ended, and slots of standbys
-- that are away: rows that were deleted since then are not removed. How many transactions began since. Vacuum is none of
-- these: nobody waits for the rows that it sees.
-- told by: OPERATORS
SELECT coalesce(nullif(application_name, ''), usename, '?') AS process, pid::text AS name, xact_start AS since,
       age(backend_xmin)::bigint AS n_transactions
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
   AND backend_type = 'client backend' AND xact_start < orrery_now() - make_interval(secs => :usual_s)
UNION ALL
SELECT owner, gid, prepared, age(transaction)::bigint FROM pg_prepared_xacts
 WHERE database = current_database() AND prepared < orrery_now() - make_interval(secs => :usual_s)
UNION ALL
SELECT 'replication slot', slot_name, NULL, age(coalesce(xmin, catalog_xmin))::bigint FROM pg_replication_slots
 WHERE NOT active AND coalesce(xmin, catalog_xmin) IS NOT NULL
 ORDER BY since LIMIT :at_most::int;

-- name: slow_sessions
-- Transactions of this database that have been open for a second, and what they wait for.
-- told by: OPERATORS
SELECT application_name AS process, round(extract(epoch FROM orrery_now() - xact_start)::numeric, 1)::float8 AS open_s,
       state, coalesce(wait_event_type || ': ' || wait_event, '') AS waits_for
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < orrery_now() - interval '1 second'
 ORDER BY xact_start LIMIT 10;

-- name: sizes_of_tables
-- The largest tables, partitions together with what they belong to, with rows as the last ANALYZE counted them.
-- told by: OPERATORS
SELECT coalesce(i.inhparent, c.oid)::regclass::text AS name, sum(pg_total_relation_size(c.oid))::bigint AS n_bytes,
       greatest(sum(c.reltuples), 0)::bigint AS n_rows, count(i.inhparent) AS n_partitions
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
 WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
 GROUP BY 1 ORDER BY 2 DESC LIMIT :at_most::int;

-- name: size_of_database
-- The whole of it, and which PostgreSQL has it.
-- told by: OPERATORS
SELECT pg_database_size(current_database()) AS n_bytes, current_setting('server_version') AS postgresql;
