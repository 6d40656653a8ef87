"""The plans of the hot statements, on a table large enough that a wrong plan shows."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import orjson
import pytest

from services.job_dispatch.acquire import lane_reader, sessions
from services.job_dispatch.acquire.sessions import PLAN_SETTINGS, READ_SETTINGS
from services.job_dispatch.store import jobs as store
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def fill(connection: asyncpg.Connection, shape_id: int, *, analyse: bool) -> None:
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(
        "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number, status,"
        " queue, resource_type, gshare, user_name, prod_source_label, job_type)"
        " SELECT n, 1, 1, $1, n % 7, 1, 1, CASE WHEN n % 3 = 0 THEN 'running' ELSE 'activated' END, 'Q' || n % 5,"
        " 'SCORE', 'S' || n % 4, 'u', 'managed', 'normal' FROM generate_series(1, 20000) AS n",
        shape_id,
    )
    await connection.execute("INSERT INTO job_specs SELECT job_id, 1, '{}' FROM jobs")
    await connection.execute(
        "INSERT INTO job_claims SELECT 'old-' || job_id, job_id FROM jobs WHERE status = 'running'"
    )
    if analyse:
        await connection.execute("ANALYZE jobs, job_specs, job_claims")
    await connection.execute("SET session_replication_role = DEFAULT")


def text_of(name: str) -> str:
    """A statement of the dispatcher's hot path."""
    (text,) = (one.SQL.text(name) for one in (lane_reader, sessions, store) if name in one.SQL.names())
    return text


async def plan_of(connection: asyncpg.Connection, name: str, types: str, arguments: str) -> str:
    await connection.execute(f"PREPARE guarded ({types}) AS {text_of(name)}")
    rows = await connection.fetch(f"EXPLAIN EXECUTE guarded ({arguments})")
    await connection.execute("DEALLOCATE guarded")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("analyse", [True, False])
async def test_the_claim_is_a_chain_of_look_ups_by_key(rows: Rows, database_url: str, analyse: bool) -> None:
    connection = await asyncpg.connect(database_url, server_settings=PLAN_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=analyse)
        plan = await plan_of(
            connection,
            "claim",
            "text[], bigint[], text[], text[], int[], int[], text[], text[], text",
            "ARRAY['k1', 'k2'], ARRAY[1, 2]::bigint[], ARRAY['Q1', 'Q2'], ARRAY['S1', 'S2'], ARRAY[1, 1], ARRAY[1, 2],"
            " ARRAY['w', 'w'], ARRAY['s', 's'], 'test'",
        )
    finally:
        await connection.close()
    assert not re.search(r"Hash Join|Merge Join|Hash Left Join", plan), plan
    assert not re.search(r"Seq Scan on (jobs|job_claims|job_specs)\b", plan), plan
    assert "Join Filter" not in plan, f"two steps of a batch are compared pair by pair: {plan}"
    assert plan.count("Index Scan using jobs_pkey") >= 2, plan
    assert "job_claims_pkey" in plan and "job_specs_pkey" in plan, plan


@pytest.mark.parametrize("analyse", [True, False])
@pytest.mark.parametrize(
    ("name", "types", "arguments"),
    [
        ("lanes_of", "text", "'Q1'"),
        ("first_lanes", "text, text[], int, int", "'Q1', ARRAY['S2', 'S1'], 2, 8"),
        (
            "read_lanes",
            "text[], int[], int[], int[], bigint[], text, int",
            "ARRAY['S1'], ARRAY[0], ARRAY[1], ARRAY[-5], ARRAY[9], 'Q1', 256",
        ),
    ],
)
async def test_windows_are_read_by_the_lane_index_alone(
    rows: Rows, database_url: str, name: str, types: str, arguments: str, analyse: bool
) -> None:
    connection = await asyncpg.connect(database_url, server_settings=READ_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=analyse)
        plan = await plan_of(connection, name, types, arguments)
    finally:
        await connection.close()
    assert "jobs_lane" in plan and "Seq Scan on jobs" not in plan and "Bitmap" not in plan, plan
    assert not re.search(r"^\s*(->)?\s*Sort\b", plan, re.MULTILINE) or name in ("lanes_of", "first_lanes"), plan


async def test_the_first_touch_of_a_queue_reads_a_few_jobs_of_each_share_however_many_wait(
    rows: Rows, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url, server_settings=READ_SETTINGS)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
            " status, queue, resource_type, gshare, user_name, prod_source_label, job_type)"
            " SELECT n, 1, 1, $1 + n / 50 % 48, n % 7, 1, 1, 'activated', 'Q' || n % 200, 'SCORE', 'S' || n / 200 % 10,"
            " 'u', 'managed', 'normal' FROM generate_series(1, 40000) AS n",
            rows.shapes["small"],
        )
        await connection.execute("VACUUM ANALYZE jobs")
        await connection.execute(f"PREPARE guarded (text, text[], int, int) AS {text_of('first_lanes')}")
        plan = await connection.fetchval(
            "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE guarded ('Q1', ARRAY['S2', 'S1'], 2, 8)"
        )
    finally:
        await connection.close()
    n_shares, n_read = 10, rows_of_jobs(orjson.loads(plan)[0]["Plan"])
    n_lanes_read = 2 * 20  # 20 jobs of a share, each perhaps of another shape
    assert n_read <= n_shares + 3 * n_lanes_read


def rows_of_jobs(node: dict[str, Any]) -> int:
    """How many rows a plan read of the table of jobs."""
    own = node["Actual Rows"] * node["Actual Loops"] if node.get("Relation Name") == "jobs" else 0
    return int(own) + sum(rows_of_jobs(one) for one in node.get("Plans", ()))


async def test_what_sites_ask_of_jobs_is_a_chain_of_look_ups_by_key(rows: Rows, database_url: str) -> None:
    connection = await asyncpg.connect(database_url, server_settings=READ_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=False)
        plan = await plan_of(connection, "job_facts", "bigint[]", "ARRAY[1, 2]")
    finally:
        await connection.close()
    assert not re.search(r"Hash|Merge Join|Seq Scan", plan), plan
    assert "jobs_pkey" in plan and "requirement_shapes_pkey" in plan and "tasks_pkey" in plan, plan


@pytest.mark.parametrize("statement", ["lock_jobs", "lock_free_jobs", "existing_jobs"])
async def test_locking_a_batch_of_jobs_is_by_primary_key(rows: Rows, database_url: str, statement: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await fill(connection, rows.shapes["small"], analyse=True)
        ids = "ARRAY[" + ",".join(map(str, range(1, 101))) + "]::bigint[]"
        plan = await plan_of(connection, statement, "bigint[]", ids)
    finally:
        await connection.close()
    assert "jobs_pkey" in plan and "Seq Scan on jobs" not in plan, plan


@pytest.mark.parametrize(
    ("name", "types", "arguments", "index"),
    [
        ("candidates_of_user", "text, int, text, text", "'Q1', 16, 'alice', NULL", "tasks_user"),
        ("candidates_of_group", "text, int, text", "'Q1', 16, 'HIGG'", "tasks_of_live_group"),
    ],
)
async def test_jobs_of_a_user_or_group_are_found_by_their_live_tasks_and_never_by_a_scan_of_a_queue(
    rows: Rows, database_url: str, name: str, types: str, arguments: str, index: str
) -> None:
    connection = await asyncpg.connect(database_url, server_settings=READ_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=True)
        plan = await plan_of(connection, name, types, arguments)
    finally:
        await connection.close()
    assert index in plan and "jobs_task" in plan and not re.search(r"Seq Scan on (jobs|tasks)\b", plan), plan
