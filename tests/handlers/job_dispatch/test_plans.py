"""The plans of the hot statements, on a table large enough that a wrong plan shows."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import orjson
import pytest

from services.job_dispatch.acquire import lane_reader, sessions
from services.job_dispatch.acquire.sessions import PLAN_SETTINGS, READ_SETTINGS
from services.job_dispatch.store import event_ranges as store_ranges
from services.job_dispatch.store import jobs as store
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.ranges import add_ranges


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


CLAIM_TYPES = "text[], bigint[], text[], text[], int[], int[], text[], text[], text, boolean"
CLAIM_ARGUMENTS = (
    "ARRAY['k1', 'k2'], ARRAY[1, 2]::bigint[], ARRAY['Q1', 'Q2'], ARRAY['S1', 'S2'], ARRAY[1, 1], ARRAY[1, 2],"
    " ARRAY['w', 'w'], ARRAY['s', 's'], 'test', {asks_vo}"
)


@pytest.mark.parametrize(("asks_vo", "uses_secrets", "n_looked_up"), [(0, 0, 0), (1, 0, 2), (0, 1, 1)])
async def test_the_task_of_a_job_is_looked_up_only_for_secrets_and_logins(
    rows: Rows, database_url: str, asks_vo: int, uses_secrets: int, n_looked_up: int
) -> None:
    connection = await asyncpg.connect(database_url, server_settings=PLAN_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=True)
        if uses_secrets:
            await connection.execute("""UPDATE job_specs SET spec = '{"useSecrets": "True"}' WHERE job_id = 1""")
        await connection.execute("UPDATE jobs SET shape_id = 1 WHERE job_id < 3")
        arguments = CLAIM_ARGUMENTS.format(asks_vo=bool(asks_vo))
        await connection.execute(f"PREPARE claim ({CLAIM_TYPES}) AS {text_of('claim')}")
        explained = await connection.fetch(f"EXPLAIN (ANALYZE, TIMING off) EXECUTE claim ({arguments})")
    finally:
        await connection.close()
    plan = "\n".join(row[0] for row in explained)
    (looked_up,) = re.findall(r"using tasks_pkey on tasks .*?\((never executed|actual .*?loops=\d+)\)", plan)
    n_found = 0 if looked_up == "never executed" else int(looked_up.rpartition("=")[2])
    assert n_found == n_looked_up, plan


@pytest.mark.parametrize("analyse", [True, False])
async def test_the_claim_is_a_chain_of_look_ups_by_key(rows: Rows, database_url: str, analyse: bool) -> None:
    connection = await asyncpg.connect(database_url, server_settings=PLAN_SETTINGS)
    try:
        await fill(connection, rows.shapes["small"], analyse=analyse)
        plan = await plan_of(
            connection,
            "claim",
            CLAIM_TYPES,
            CLAIM_ARGUMENTS.format(asks_vo="false"),
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
        ("candidates_of_user", "text, int, text, text", "'Q1', 16, 'alice', NULL", "tasks_of_live_users"),
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


#: of statements about ranges; the types are those of the statement
ARGUMENTS_ABOUT_RANGES = {
    "task_id": "1", "job_id": "1", "n_ranges": "5", "to_status": "1", "allowed": "'{0}'", "is_processed": "false",
    "set_ids": "'{1}'", "ids": "'{1,2}'", "file_ids": "'{1,1}'", "process_ids": "'{1,2}'", "attempts": "'{10,10}'",
    "job_ids": "'{1,1}'", "error_codes": "'{NULL,NULL}'", "error_diags": "'{NULL,NULL}'",
    "obj_store_ids": "'{NULL,NULL}'", "zip_row_ids": "'{NULL,NULL}'",
}  # fmt: skip


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    "name",
    ["take_ranges", "take_ranges_of_sets", "count_ready", "lock_sets_of_ranges", "named_ranges", "move_ranges",
     "copy_failed"],
)  # fmt: skip
async def test_the_claim_and_the_update_of_ranges_scan_the_partition_of_their_task_only(
    rows: Rows, database_url: str, name: str, mode: str
) -> None:
    await add_ranges(rows, [(await rows.jobs(1, status="running"))[0]], 200)
    connection = await asyncpg.connect(database_url, server_settings={"plan_cache_mode": mode})
    try:
        await connection.execute("ANALYZE event_ranges")
        mine = await connection.fetchval("SELECT DISTINCT tableoid::regclass::text FROM event_ranges WHERE task_id = 1")
        await connection.execute(f"PREPARE guarded AS {store_ranges.SQL.text(name)}")
        given = ", ".join(ARGUMENTS_ABOUT_RANGES[one] for one in store_ranges.SQL.parameters(name))
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE guarded ({given})"))
    finally:
        await connection.close()
    scanned = set(re.findall(r"Scan.* on (event_ranges_\d\d)\b", plan))
    assert scanned == {mine}, plan


async def test_moving_ranges_does_not_read_those_of_the_task_while_the_statistics_are_old(
    rows: Rows, database_url: str
) -> None:
    """Statistics say that no range is sent; a plan that starts from the sent ones of the task would read them all."""
    await add_ranges(rows, [(await rows.jobs(1, status="running"))[0]], 2000)
    connection = await asyncpg.connect(database_url, server_settings={"plan_cache_mode": "force_custom_plan"})
    try:
        await connection.execute("ANALYZE event_ranges")
        await connection.execute("UPDATE event_ranges SET status = 1")
        await connection.execute(f"PREPARE guarded AS {store_ranges.SQL.text('move_ranges')}")
        values = {**ARGUMENTS_ABOUT_RANGES, "to_status": "3", "allowed": "'{1,2}'"}
        given = ", ".join(values[one] for one in store_ranges.SQL.parameters("move_ranges"))
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE guarded ({given})"))
    finally:
        await connection.close()
    assert re.search(r"Index Cond: \(\(task_id = '1'::bigint\) AND \(event_range_id = w.event_range_id\)\)", plan), plan


async def test_a_report_of_a_range_writes_no_index(rows: Rows, database_url: str) -> None:
    """Its row has another version in the same page, which the indexes do not know of (HOT)."""
    job_id = (await rows.jobs(1, status="running"))[0]
    await add_ranges(rows, [job_id], 20)
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            taken = await store_ranges.take_ranges(connection, 1, job_id, 10)
        async with connection.transaction():
            details = {one.event_range_id: store_ranges.RangeDetails(job_id) for one in taken}
            moved = await store_ranges.move_ranges(connection, 1, "finished", details)
            in_page = "SELECT sum(pg_stat_get_xact_tuples_hot_updated(relid)) FROM pg_partition_tree('event_ranges')"
            assert len(moved) == await connection.fetchval(in_page) == 10
    finally:
        await connection.close()
