"""The database refuses what the graphs do not have, and records what they have: who, why, when."""

from __future__ import annotations

from itertools import product

import asyncpg
import pytest

from shared.db import Database
from shared.states import DATASET, GRAPHS, JOB, TASK
from tests import rows


async def test_the_arrows_of_the_database_are_those_of_the_code(database: Database) -> None:
    async with database.read() as connection:
        found = await connection.fetch("SELECT entity, from_status, to_status FROM allowed_transitions")
    wanted = {(graph.entity, t.source or "", t.target) for graph in GRAPHS for t in graph.transitions}
    assert {tuple(row) for row in found} == wanted


async def _entity(connection: asyncpg.Connection, kind: str, status: str) -> tuple[str, str, int]:
    """A row of this kind in this state: its table, key column and key."""
    task = await rows.task(connection, status=status if kind == "task" else "running")
    if kind == "task":
        return "tasks", "task_id", task
    if kind == "dataset":
        return "task_datasets", "dataset_id", await rows.dataset(connection, task, status=status)
    return "jobs", "job_id", await rows.job(connection, task, status=status)


@pytest.mark.parametrize("graph", [TASK, DATASET, JOB], ids=lambda graph: graph.entity)
async def test_every_pair_of_states_is_accepted_or_refused_as_the_graph_says(database: Database, graph) -> None:
    async with database.read() as connection:
        for source in sorted(graph.meanings):
            table, key, number = await _entity(connection, graph.entity, source)
            for target in sorted(graph.meanings):
                if target == source:
                    continue
                change = connection.transaction()
                await change.start()
                try:
                    await connection.execute(f"UPDATE {table} SET status = $2 WHERE {key} = $1", number, target)
                    accepted = True
                except asyncpg.CheckViolationError as refusal:
                    accepted = False
                    assert f"{graph.entity} {number} may not go from {source} to {target}" in str(refusal)
                await change.rollback()
                assert accepted == ((source, target) in graph.edges()), (source, target)


@pytest.mark.parametrize("graph", [TASK, DATASET, JOB], ids=lambda graph: graph.entity)
async def test_rows_are_inserted_in_initial_states_only(database: Database, graph) -> None:
    tables = {
        "task": "INSERT INTO tasks (task_name, user_name, status) VALUES ('t', 'u', $1)",
        "dataset": "INSERT INTO task_datasets (task_id, dataset_name, type, status) VALUES ($2, 'd', 'input', $1)",
        "job": "INSERT INTO jobs (job_id, task_id, chunk_id, shape_id, current_priority, core_count, attempt_number,"
        " status, queue, resource_type, gshare, user_name, prod_source_label, job_type)"
        " VALUES (1, $2, 1, 1, 1, 1, 1, $1, 'q', 'SCORE', 'g', 'u', 'managed', 'normal')",
    }
    async with database.read() as connection:
        task = await rows.task(connection)
        for status in sorted(graph.meanings):
            change = connection.transaction()
            await change.start()
            arguments = (status,) if graph.entity == "task" else (status, task)
            if status in graph.initial():
                await connection.execute(tables[graph.entity], *arguments)
            else:
                with pytest.raises(asyncpg.CheckViolationError, match=f"may not be inserted in state {status}"):
                    await connection.execute(tables[graph.entity], *arguments)
            await change.rollback()


async def test_one_wrong_row_refuses_the_whole_statement(database: Database) -> None:
    async with database.read() as connection:
        task = await rows.task(connection)
        numbers = [await rows.job(connection, task, status=status) for status in ("activated", "activated", "running")]
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute("UPDATE jobs SET status = 'sent' WHERE job_id = ANY($1)", numbers)
        found = await connection.fetch("SELECT status FROM jobs ORDER BY job_id")
        assert [row["status"] for row in found] == ["activated", "activated", "running"]
        assert await connection.fetchval("SELECT count(*) FROM transition_log") == 0


@pytest.mark.parametrize("kind", ["task", "dataset", "job"])
async def test_a_legal_transition_is_logged_with_actor_reason_cause_and_time(database: Database, kind: str) -> None:
    source, target = {"task": ("ready", "running"), "dataset": ("defined", "ready"), "job": ("activated", "sent")}[kind]
    async with database.read() as connection:
        table, key, number = await _entity(connection, kind, source)
    async with database.begin(reason="because of the test", cause_event_id=42) as work:
        await work.connection.execute(f"UPDATE {table} SET status = $2 WHERE {key} = $1", number, target)
        now = work.now
    async with database.read() as connection:
        logged = await connection.fetchrow("SELECT * FROM transition_log WHERE entity = $1", kind)
    assert (logged["entity_id"], logged["from_status"], logged["to_status"]) == (number, source, target)
    assert (logged["actor"], logged["reason"], logged["cause_event_id"]) == ("test", "because of the test", 42)
    assert logged["at"] == now


async def test_a_statement_that_leaves_the_status_alone_logs_nothing(database: Database) -> None:
    async with database.read() as connection:
        task = await rows.task(connection)
        await rows.job(connection, task, status="running")
        await connection.execute("UPDATE jobs SET heartbeat_at = orrery_now()")
        await connection.execute("UPDATE tasks SET progress = 5, status = status")
        assert await connection.fetchval("SELECT count(*) FROM transition_log") == 0


async def test_the_insertion_of_a_task_is_logged(database: Database) -> None:
    async with database.begin(reason="submitted by alice") as work:
        number = await work.connection.fetchval(
            "INSERT INTO tasks (task_name, user_name, status) VALUES ('t', 'alice', 'registered') RETURNING task_id"
        )
    async with database.read() as connection:
        logged = await connection.fetchrow("SELECT * FROM transition_log WHERE task_id = $1", number)
    assert (logged["from_status"], logged["to_status"], logged["reason"]) == (
        None,
        "registered",
        "submitted by alice",
    )


async def test_the_graphs_name_no_transition_that_could_not_be_told_apart(database: Database) -> None:
    # a file's states are checked by compare-and-set; the table refuses what is no state at all
    async with database.read() as connection:
        task = await rows.task(connection)
        data = await rows.dataset(connection, task)
        for status, lfn in product(("partial", "nonsense"), ("a",)):
            with pytest.raises(asyncpg.CheckViolationError):
                await rows.file(connection, task, data, status=status, lfn=lfn)


async def test_a_new_database_has_the_tables_of_the_specification(database: Database) -> None:
    wanted = {
        "tasks", "task_parameters", "job_parameters_templates", "task_datasets", "task_files", "output_templates",
        "work_queues", "event_ranges", "job_retry_history", "process_locks",
    }  # fmt: skip
    async with database.read() as connection:
        found = await connection.fetch("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    assert wanted <= {row["table_name"] for row in found}
