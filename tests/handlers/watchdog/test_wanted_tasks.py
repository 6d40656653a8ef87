"""Tasks that are wanted by a time: explain says when they end, and those that would be late are hurried."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from services.task_definition.tasks.explaining import Explanation
from services.watchdog import hurrying
from services.watchdog.hurrying import Hurrying
from shared.auth import Caller
from shared.cache import NullCache
from shared.events import TaskOrderRequested
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


async def wanted(connection: asyncpg.Connection, due_at: datetime, **values: Any) -> int:
    """A task that began four hours ago; 400 of 1000 files have ended, so that it ends in six hours."""
    facts = {"status": "running", "start_time": START - 4 * HOUR, "creation_date": START - 5 * HOUR,
             "current_priority": 500, **values}  # fmt: skip
    task = await rows.task(connection, **facts)
    await rows.dataset(connection, task, type="input", n_files=1000, n_files_finished=399, n_files_failed=1)
    await rows.insert(connection, "task_deadlines", {"task_id": task, "due_at": due_at, "look_at": START})
    return task


async def look(stage: Stage) -> list[TaskOrderRequested]:
    await stage.value("DELETE FROM watch_runs WHERE watch = 'deadlines'")
    events = await stage.run(Hurrying(stage.parameters).watch_deadlines)
    return [event for event in events if isinstance(event, TaskOrderRequested)]


async def explained(stage: Stage, task: int) -> str:
    async with stage.database.read() as connection:
        found = await Explanation(KnownGrid(NullCache())).task(connection, task, OPERATOR)
    assert found is not None
    return next(line.strip() for line in found["text"].splitlines() if "wanted by" in line)


@pytest.mark.parametrize(("due_in", "n_late"), [(6 * HOUR, 0), (6 * HOUR - SECOND, 1)])
async def test_a_task_that_would_end_a_second_too_late_is_hurried(
    stage: Stage, connection: asyncpg.Connection, due_in: timedelta, n_late: int
) -> None:
    task = await wanted(connection, START + due_in)
    asked = await look(stage)
    assert [(one.task_id, one.priority) for one in asked] == [(task, 900)] * n_late
    assert (await explained(stage, task)).endswith(
        "ends between 2026-03-01 18:00:00 UTC and 2026-03-01 18:00:00 UTC: 600 of 1000 units are left; 100 ended in an "
        "hour, lately 100 (worked out at 2026-03-01 12:00:00 UTC)"
    )


async def test_a_range_follows_from_what_ended_lately(stage: Stage, connection: asyncpg.Connection) -> None:
    task = await wanted(connection, START + 24 * HOUR)
    assert "worked out soon" in await explained(stage, task)
    await look(stage)
    stage.clock.forward(hours=1)
    await rows.change(connection, "UPDATE task_datasets SET n_files_finished = 449 WHERE task_id = $1", task)
    assert await look(stage) == []
    assert "ends between 2026-03-01 19:06:40 UTC and 2026-03-02 00:00:00 UTC: 550 of 1000 units are left" in (
        await explained(stage, task)
    )


async def test_it_is_looked_at_every_ten_minutes_and_asked_for_once_it_has_the_priority_no_more(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task = await wanted(connection, START + HOUR)
    assert len(await look(stage)) == 1
    stage.clock.forward(seconds=599)
    assert await look(stage) == []
    stage.clock.forward(seconds=1)
    assert len(await look(stage)) == 1, "the other service has not raised it yet"
    await rows.change(connection, "UPDATE tasks SET current_priority = 900 WHERE task_id = $1", task)
    stage.clock.forward(seconds=600)
    assert await look(stage) == []


async def test_analysis_has_a_priority_of_its_own_and_a_parameter_says_which(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    analysis = {"prod_source_label": "user", "task_type": "anal", "current_priority": 1000}
    await wanted(connection, START + HOUR, **analysis)
    assert [one.priority for one in await look(stage)] == [1100]
    await stage.set("LATE_PRIORITY_user", 1234)
    stage.clock.forward(seconds=600)
    assert [one.priority for one in await look(stage)] == [1234]


async def test_a_task_that_has_ended_is_forgotten_whatever_its_time(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await wanted(connection, datetime(2099, 12, 31, tzinfo=UTC), status="done")
    await rows.insert(connection, "task_deadlines", {"task_id": 4711, "due_at": START, "look_at": START})
    live = await wanted(connection, START + HOUR, current_priority=900)
    await look(stage)
    assert await stage.value("SELECT array_agg(task_id) FROM task_deadlines") == [live]


async def test_no_more_than_a_slice_is_forgotten_at_once(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hurrying, "SLICE", 2)
    for _ in range(3):
        await wanted(connection, START + HOUR, status="failed")
    for left in (1, 0):
        await look(stage)
        assert await stage.value("SELECT count(*) FROM task_deadlines") == left


@pytest.mark.parametrize(("wanted_in", "n_late"), [(timedelta(), 0), (SECOND, 1)])
async def test_a_time_that_was_over_at_submission_hurries_nothing(
    stage: Stage, connection: asyncpg.Connection, wanted_in: timedelta, n_late: int
) -> None:
    await wanted(connection, START - 5 * HOUR + wanted_in)
    assert len(await look(stage)) == n_late
