"""Commands of owners and operators: which states they take, what they change, and what they tell."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.tasks.policy import commands as rules
from shared.auth import Authority
from shared.db import Database
from shared.events import (
    TaskCommanded,
    TaskProgressed,
    TaskReleased,
)
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.commanding import announced, command
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define, end_files, path, put, rows_of, task_row, value_of
from tests.handlers.task_definition.world import analysis
from tests.rows import insert


async def test_kill_makes_the_first_transition_and_tells_the_others(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    reply = await command(producer, "kill", task_id, reason="wrong geometry")
    assert (reply["success"], reply["data"]) == (True, 0)
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"], row["command"]) == ("aborting", "running", "kill")
    assert row["error_dialog"] == "kill by prodteam: wrong geometry"
    assert TaskCommanded.routing_key() in await announced(database)
    reply = await command(producer, "kill", task_id)
    assert (reply["success"], reply["data"]) == (False, rules.IRRELEVANT)
    outcomes = await rows_of(database, "SELECT outcome FROM audit_log WHERE verb = 'task.kill' ORDER BY audit_id")
    assert outcomes[0]["outcome"] == "accepted"
    assert outcomes[1]["outcome"].startswith("refused: kill is refused for a task that is aborting")


async def test_a_killed_task_is_aborted_when_its_last_job_is_gone_and_counted(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    async with database.read() as connection:
        a_job = {
            "job_id": 1, "task_id": task_id, "chunk_id": 1, "shape_id": 1, "current_priority": 1, "core_count": 1,
            "attempt_number": 1, "status": "running", "queue": "Q", "resource_type": "SCORE", "gshare": "MC",
            "user_name": "u", "prod_source_label": "managed", "job_type": "normal",
        }  # fmt: skip
        await insert(connection, "jobs", a_job)
    await command(producer, "kill", task_id)
    progressed = TaskProgressed(
        task_id=task_id, status="aborting", files_finished=0, files_failed=0, files_total=20, live_jobs=0
    )
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == "aborting"
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET status = 'cancelled'")
    await deliver(database, service, progressed)
    assert (await task_row(database, task_id))["status"] == "aborting"
    async with database.read() as connection:
        await connection.execute("UPDATE jobs SET results_applied_at = orrery_now()")
    [completed] = await deliver(database, service, progressed)
    row = await task_row(database, task_id)
    assert (row["status"], completed.status) == ("aborted", "aborted")
    assert row["end_time"] is not None
    moves = await path(database, "task", task_id)
    assert [state for _, state in moves][-3:] == ["aborting", "toabort", "aborted"]
    closed = await rows_of(database, "SELECT type, status FROM task_datasets WHERE task_id = $1", task_id)
    assert {(one["type"], one["status"]) for one in closed} == {
        ("input", "failed"),
        ("output", "failed"),
        ("log", "failed"),
    }


async def test_finish_takes_what_is_there(
    database: Database, service: Service, producer: httpx.AsyncClient, task_id: int
) -> None:
    await end_files(database, task_id, finished=8)
    assert (await command(producer, "finish", task_id, soft=True))["data"] == 0
    progressed = TaskProgressed(
        task_id=task_id, status="finishing", files_finished=8, files_failed=0, files_total=20, live_jobs=0
    )
    await deliver(database, service, progressed)
    row = await task_row(database, task_id)
    assert (row["status"], row["progress"]) == ("finished", 40)
    assert "8 of 20" in row["error_dialog"]


@pytest.mark.parametrize(
    ("facts", "after"),
    [({}, "scouting"), ({"measured_units": ["ram_count"]}, "running"), ({"walltime_unit": "kSI2kseconds"}, "running")],
)
async def test_an_exhausted_task_whose_scouts_measured_goes_on_running(
    database: Database, producer: httpx.AsyncClient, task_id: int, facts: dict[str, object], after: str
) -> None:
    await put(database, task_id, "exhausted", old_status="scouting", **facts)
    assert (await command(producer, "retry", task_id))["success"]
    assert (await task_row(database, task_id))["status"] == after


async def test_pause_remembers_what_to_go_back_to(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "pending", old_status="running", error_dialog="no queue")
    assert (await command(producer, "pause", task_id))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["old_status"], row["retry_at"]) == ("paused", "running", None)
    assert (await command(producer, "pause", task_id))["data"] == rules.IRRELEVANT
    assert (await command(producer, "resume", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "running"
    assert (await announced(database))[-2:] == [TaskCommanded.routing_key(), TaskReleased.routing_key()]


async def test_a_task_that_is_paused_while_it_waits_keeps_its_time_and_goes_on_at_it(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    later = await value_of(database, "SELECT orrery_now() + interval '1 hour'")
    await put(database, task_id, "pending", old_status="running", retry_at=later)
    assert (await command(producer, "pause", task_id))["data"] == 0
    assert (await task_row(database, task_id))["retry_at"] == later
    assert (await command(producer, "resume", task_id))["data"] == 0
    row = await task_row(database, task_id)
    assert (row["status"], row["retry_at"]) == ("running", later)


async def test_a_throttled_task_can_be_resumed(database: Database, producer: httpx.AsyncClient, task_id: int) -> None:
    await put(database, task_id, "throttled", old_status="running")
    assert (await command(producer, "resume", task_id))["data"] == 0
    assert (await task_row(database, task_id))["status"] == "running"


async def test_a_resumed_task_that_made_jobs_asks_to_be_looked_at_by_its_own_row(
    database: Database, producer: httpx.AsyncClient, task_id: int
) -> None:
    await put(database, task_id, "paused", old_status="running")
    assert (await command(producer, "resume", task_id))["data"] == 0
    task = await task_row(database, task_id)
    assert task["status"] == "running" and task["retry_at"] == task["state_change_time"]


async def test_a_user_commands_their_own_tasks_only(
    database: Database, service: Service, authority: Authority, user: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, user, analysis())
    async with client_of(service, authority, "bob", "user") as other:
        assert (await command(other, "kill", task_id))["data"] == rules.NOT_PERMITTED
    assert (await task_row(database, task_id))["status"] == "ready"
    assert (await command(user, "pause", task_id))["data"] == 0
    assert (await command(operator, "resume", task_id))["data"] == 0
    assert (await command(user, "kill", 999_999))["data"] == rules.NOT_FOUND
