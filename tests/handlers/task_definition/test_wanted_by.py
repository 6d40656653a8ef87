"""A task may say by when it is wanted (ttcrTimestamp)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from shared.db import Database
from tests import rows
from tests.handlers.task_definition.commanding import command
from tests.handlers.task_definition.steps import put, submit, value_of
from tests.handlers.task_definition.world import production

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "stated", ["2026-05-01 12:00:00", "2026-05-01 12:00:00.000000+00:00", "2026-05-01T14:00:00+02:00"]
)
async def test_the_time_by_which_a_task_is_wanted_is_kept_and_explained(
    database: Database, producer: httpx.AsyncClient, stated: str
) -> None:
    task_id = await submit(producer, production(**{"ttcrTimestamp": stated}))
    assert await value_of(database, "SELECT due_at FROM task_deadlines WHERE task_id = $1", task_id) == NOON
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert "wanted by 2026-05-01 12:00:00 UTC; when it ends is worked out soon" in found["text"]


async def test_without_it_there_is_no_deadline(database: Database, producer: httpx.AsyncClient) -> None:
    await submit(producer, production())
    assert await value_of(database, "SELECT count(*) FROM task_deadlines") == 0


@pytest.mark.parametrize("stated", ["soon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_a_time_that_cannot_be_read_is_refused_with_what_is_allowed(
    producer: httpx.AsyncClient, stated: str
) -> None:
    body = {"task_parameters": production(**{"ttcrTimestamp": stated})}
    reply = (await producer.post("/api/v1/task/submit", json=body)).json()
    assert (
        f"ttcrTimestamp = '{stated}': allowed: a date and time, such as '2026-05-01 12:00:00', in UTC unless it says"
        in (reply["message"])
    )


@pytest.mark.parametrize("was_kept", [True, False])
async def test_a_retried_task_is_wanted_by_the_time_of_its_parameters_again(
    database: Database, producer: httpx.AsyncClient, task_id: int, was_kept: bool
) -> None:
    async with database.read() as connection:
        if was_kept:
            await rows.insert(connection, "task_deadlines", {"task_id": task_id, "due_at": NOON - timedelta(days=30)})
        stated = {"ttcrTimestamp": "2026-05-01 12:00:00"}
        changed = "UPDATE task_parameters SET task_parameters = task_parameters || $1 WHERE task_id = $2"
        await rows.change(connection, changed, stated, task_id)
    await put(database, task_id, "exhausted", old_status="scouting")
    assert (await command(producer, "retry", task_id))["success"]
    assert await value_of(database, "SELECT due_at FROM task_deadlines WHERE task_id = $1", task_id) == NOON
