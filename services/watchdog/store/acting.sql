-- Turns of actions, and what they did last.

-- name: last_turn
-- When an action last had its turn.
-- told by: OPERATORS
SELECT last_run_at FROM watch_runs WHERE watch = :watch;

-- name: make_due
-- An action that somebody asks for has its turn now; the time of its last turn stays near enough not to look like an
-- outage.
-- done for: OPERATORS
UPDATE watch_runs SET last_run_at = orrery_now() - make_interval(secs => :period_s::float8)
 WHERE watch = :watch AND last_run_at > orrery_now() - make_interval(secs => :period_s::float8);

-- name: keep_done
-- What an action did last.
-- done for: OPERATORS
UPDATE watch_runs SET last_done_at = orrery_now(), last_done = :last_done WHERE watch = :watch;

-- name: turns
-- When each action last had its turn, how long nothing ends, and what it did last.
-- told by: OPERATORS
SELECT watch, last_run_at, grace_until, grace_reason, last_done_at, last_done,
       extract(epoch FROM orrery_now() - last_run_at)::float8 AS since_s
  FROM watch_runs ORDER BY watch;
