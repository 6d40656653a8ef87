"""A task may say by when it is wanted (ttcrTimestamp)."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from shared.db import Database
from tests.handlers.task_definition.steps import submit, value_of
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


async def test_a_time_that_cannot_be_read_is_refused_with_what_is_allowed(producer: httpx.AsyncClient) -> None:
    body = {"task_parameters": production(**{"ttcrTimestamp": "soon"})}
    reply = (await producer.post("/api/v1/task/submit", json=body)).json()
    assert (
        "ttcrTimestamp = 'soon': allowed: a date and time, such as '2026-05-01 12:00:00', in UTC unless it says"
        in (reply["message"])
    )
