"""A million live jobs of many tasks, queues and users, with their statistics, and due jobs among them."""

from __future__ import annotations

from datetime import timedelta

import asyncpg

from tests.performance.sizes import sized

N_LIVE, N_DUE = sized(1_000_000, 4_000), sized(10_000, 1_200)
JOBS_OF_A_TASK, N_QUEUES, N_USERS = 500, 200, 400
N_LIVE_TASKS = max(8, N_LIVE // JOBS_OF_A_TASK)
N_ENDED_TASKS = sized(20_000, 200)
DAY_H = 24.0
#: state, hours in it, hours since creation: each longer than one of its limits
KINDS = (
    ("running", 3.0, 5.0), ("sent", 1.0, 5.0), ("pending", 2.0, 2.0), ("waiting", 1.0, 1.0), ("defined", 5.0, 5.0),
    ("assigned", 13.0, 14.0), ("throttled", 8 * DAY_H, 9 * DAY_H), ("activated", 3 * DAY_H, 3 * DAY_H),
    ("starting", 3 * DAY_H, 3 * DAY_H), ("holding", 3 * DAY_H, 3 * DAY_H), ("transferring", 8 * DAY_H, 9 * DAY_H),
    ("merging", 2 * DAY_H, 22 * DAY_H),
)  # fmt: skip
#: state, part of those that may go on, hours in it
OTHERS = (("running", 0.5, 3 * DAY_H), ("activated", 0.4, 5.0), ("transferring", 0.05, DAY_H), ("starting", 0.05, 1.0))

_GRID = """
INSERT INTO sites (site, state, role, data) VALUES ('S', 'ACTIVE', 'satellite', '{"name": "S", "state": "ACTIVE"}');
INSERT INTO queues SELECT 'Q' || n, 'S', 'online', 'unified',
       '{"status": "online", "type": "unified", "atlas_site": "S", "meanrss": 2000, "workflow": "push"}'
  FROM generate_series(0, %d) n;
INSERT INTO shares (gshare, value) SELECT 'S' || n, 10 FROM generate_series(0, 19) n;
INSERT INTO requirement_shapes (prod_source_label, resource_type, core_count, ram_mb, disk_mb, walltime_s)
SELECT 'managed', 'SCORE', 1, 1000 + n, 10000, 3600 FROM generate_series(1, 48) n;
"""
_TASKS = """
INSERT INTO tasks (task_id, task_name, user_name, status, task_type, prod_source_label, vo, working_group, gshare,
                   processing_type, current_priority, creation_date, start_time, state_change_time, disk_io, core_count)
SELECT n, 'task.' || n, 'user' || n % $3::int, CASE WHEN n > $1::int THEN 'done' ELSE 'running' END,
       CASE WHEN n % 4 = 0 THEN 'anal' ELSE 'prod' END, CASE WHEN n % 4 = 0 THEN 'user' ELSE 'managed' END, 'atlas',
       CASE WHEN n % 40 = 0 THEN 'wg' || n % 10 END, 'S' || n % 20, 'simul', n % 900,
       orrery_now() - interval '5 days', orrery_now() - interval '5 days', orrery_now() - interval '4 days',
       CASE WHEN n % 2 = 0 THEN 100 + n % 300 END, 1
  FROM generate_series(1, $1::int + $2::int) n
"""
_DATASETS = """
INSERT INTO task_datasets (dataset_id, task_id, dataset_name, type, status, n_files, n_files_to_be_used, n_files_used)
SELECT n, n, 'd' || n, 'input', 'ready', 0, 0, 0 FROM generate_series(1, $1::int) n
"""
_CHUNKS = """
INSERT INTO chunks (chunk_id, task_id, kind, status, n_files, n_jobs, offered_at, ended_at)
SELECT n, 1 + n % $1::int, 'normal', 'used', 1, 1, orrery_now() - interval '4 days', orrery_now() - interval '3 days'
  FROM generate_series(1, 10 * $1::int) n
"""
_JOBS = """
INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status, queue,
                  resource_type, gshare, user_name, prod_source_label, job_type, creation_time, state_change_time,
                  start_time, heartbeat_at, deadline_at)
SELECT nextval('job_ids'), t.id, n / 100, 1 + n % 48, n % 1000, 1, 1, $1::text, 'Q' || n % $7::int, 'SCORE',
       'S' || t.id % 20, 'user' || t.id % $8::int, CASE WHEN t.id % 4 = 0 THEN 'user' ELSE 'managed' END, 'normal',
       orrery_now() - make_interval(secs => 3600 * $3::float8), orrery_now() - make_interval(secs => 3600 * $2::float8),
       CASE WHEN $1 IN ('running', 'transferring')
            THEN orrery_now() - make_interval(secs => 3600 * $2::float8) END,
       CASE WHEN $5::boolean THEN orrery_now() - interval '10 minutes' END,
       orrery_now() + $4::interval * (1 + n % 100)
  FROM generate_series(1, $6::int) AS n CROSS JOIN LATERAL (SELECT 1 + n % $9::int AS id) t
"""
_STATISTICS = """
INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, vo, n_jobs, n_cores)
SELECT queue, resource_type, gshare, user_name, status, 'atlas', count(*), sum(core_count) FROM jobs
 WHERE status NOT IN ('finished', 'failed', 'closed', 'cancelled') GROUP BY 1, 2, 3, 4, 5;
INSERT INTO queue_activity (queue) SELECT DISTINCT queue FROM jobs;
INSERT INTO usage_levels (gshare, vo, working_group, user_name, cores, hs06)
SELECT j.gshare, t.vo, coalesce(t.working_group, ''), j.user_name, sum(j.core_count), 10 * sum(j.core_count)
  FROM jobs j JOIN tasks t USING (task_id) WHERE j.status = 'running' GROUP BY 1, 2, 3, 4;
"""


async def fill(connection: asyncpg.Connection) -> None:
    """The way of these rows is not the subject: triggers do not see them."""
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(_GRID % (N_QUEUES - 1))
    await connection.execute(_TASKS, N_LIVE_TASKS, N_ENDED_TASKS, N_USERS)
    await connection.execute(_DATASETS, N_LIVE_TASKS + N_ENDED_TASKS)
    await connection.execute(_CHUNKS, N_LIVE_TASKS)
    for status, part, hours in OTHERS:
        await _jobs(connection, status, hours, hours, timedelta(hours=1), int(N_LIVE * part), heard=True)
    await connection.execute(_STATISTICS)
    await connection.execute("RESET session_replication_role")
    await connection.execute("VACUUM ANALYZE")


async def add_due(connection: asyncpg.Connection) -> int:
    """Jobs of each kind whose time is over; how many."""
    await connection.execute("SET session_replication_role = replica")
    for status, hours, since_creation in KINDS:
        await _jobs(connection, status, hours, since_creation, -timedelta(seconds=1), N_DUE // len(KINDS), heard=False)
    await connection.execute("RESET session_replication_role")
    return N_DUE // len(KINDS) * len(KINDS)


async def _jobs(
    connection: asyncpg.Connection, status: str, hours: float, since_creation_h: float, due: timedelta, count: int, *,
    heard: bool,
) -> None:  # fmt: skip
    await connection.execute(_JOBS, status, hours, since_creation_h, due, heard, count, N_QUEUES, N_USERS, N_LIVE_TASKS)
