"""Production tasks of which too many jobs fail pause (auto pause), unless they say noAutoPause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from services.watchdog.acting import Lately
from services.watchdog.pausing import pause_failing
from services.watchdog.policy.failures import FailingTask, PauseLimits, pauses
from services.watchdog.store import due
from shared.cache import NullCache
from shared.events import TaskCommandRequested
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.watchdog.conftest import Stage

RATE = "MAX_JOB_FAILURE_RATE_TO_PAUSE"
HEP_SCORE_RATE = "MAX_HEP_SCORE_FAILURE_RATE_TO_PAUSE"


async def failing(
    connection: asyncpg.Connection, *, finished: int = 500, failed: int = 700, left: int = 400, **values: Any
) -> int:
    """A running production task with so many jobs, whose input has one unit for each finished one."""
    task_id = await rows.task(connection, **{"status": "running", "prod_source_label": "managed", **values})
    counts = {"task_id": task_id, "n_finished": finished, "n_failed": failed}
    await rows.insert(connection, "task_job_counts", counts)
    await rows.dataset(connection, task_id, n_files=finished + left, n_files_finished=finished, n_files_used=finished)
    return task_id


async def paused(stage: Stage) -> dict[int, str]:
    told = await stage.run(stage.watchdog.watch_attempts)
    asked = [event for event in told if isinstance(event, TaskCommandRequested)]
    assert {event.command for event in asked} <= {"pause"}
    return {event.task_id: event.reason for event in asked}


async def test_a_task_of_which_too_many_jobs_fail_pauses_with_the_numbers(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task_id = await failing(connection)
    await failing(connection, finished=900, failed=300)
    await stage.set(f"{RATE}_managed", 50)
    assert await paused(stage) == {task_id: "700 of 1200 jobs failed (58 %); allowed: less than 50 %"}


async def test_no_task_pauses_while_no_rate_is_set(stage: Stage, connection: asyncpg.Connection) -> None:
    await failing(connection)
    assert await paused(stage) == {}


async def test_running_tasks_of_the_same_request_type_pause_with_it(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    task_id = await failing(connection, request_type="hash-1")
    same = await rows.task(connection, status="running", prod_source_label="managed", request_type="hash-1")
    await rows.task(connection, status="running", prod_source_label="managed", request_type="hash-2")
    await rows.task(connection, status="pending", prod_source_label="managed", request_type="hash-1")
    await stage.set(f"{RATE}_managed", 50)
    found = await paused(stage)
    assert sorted(found) == [task_id, same] and f"task {task_id} of the same request type (hash-1)" in found[same]


@pytest.mark.parametrize(
    "values",
    [
        {"split_rule": {"noAutoPause": True}},
        {"prod_source_label": "user"},
        {"status": "scouting"},
        {"finished": 200, "failed": 700},
        {"left": 99},
    ],
)
async def test_tasks_that_do_not_pause_for_their_failures(
    stage: Stage, connection: asyncpg.Connection, values: dict[str, Any]
) -> None:
    await failing(connection, **values)
    await stage.set(f"{RATE}_managed", 50)
    assert await paused(stage) == {}


async def test_a_share_has_a_rate_of_its_own(stage: Stage, connection: asyncpg.Connection) -> None:
    strict = await failing(connection, gshare="MC")
    await failing(connection, gshare="Data")
    await stage.set(f"{RATE}_managed", 90)
    await stage.set(f"{RATE}_managed_MC", 30)
    assert list(await paused(stage)) == [strict]


async def used(connection: asyncpg.Connection, task_id: int, queue: str, finished_s: float, failed_s: float) -> None:
    values = {"task_id": task_id, "queue": queue, "finished_core_s": finished_s, "failed_core_s": failed_s}
    await rows.insert(connection, "task_usage", values)


async def test_a_task_whose_failed_jobs_used_too_much_of_the_hep_score_seconds_pauses(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    grid = small_grid()
    grid["queues"]["Q_ALPHA"]["corepower"] = 30
    await load_grid(stage.database, grid)
    task_id, other = [await failing(connection, finished=1000, failed=10) for _ in range(2)]
    await used(connection, task_id, "Q_ALPHA", 0, 2000)  # 60000 HEP score seconds
    await used(connection, task_id, "GONE", 4000, 0)  # 40000: the usual benchmark
    await used(connection, other, "Q_ALPHA", 2000, 0)
    await used(connection, other, "GONE", 0, 4000)
    await stage.set(f"{HEP_SCORE_RATE}_managed", 60)
    told = "failed jobs used 60 % of the HEP score seconds of its jobs; allowed: less than 60 %"
    assert await paused(stage) == {task_id: told}


async def test_a_share_has_a_hep_score_rate_of_its_own_and_each_rate_is_asked_for_itself(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    strict = await failing(connection, gshare="MC", finished=1000, failed=10)
    for task_id in (strict, await failing(connection, gshare="Data", finished=1000, failed=10)):
        await used(connection, task_id, "Q_ALPHA", 500, 500)
    by_number = await failing(connection, gshare="Data")
    await stage.set(f"{HEP_SCORE_RATE}_managed_MC", 50)
    await stage.set(f"{RATE}_managed", 50)
    assert sorted(await paused(stage)) == [strict, by_number]


async def test_tables_are_not_read_while_no_rate_is_set(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def rows_of(_: asyncpg.Connection, name: str, **__: object) -> list[object]:
        read.append(name)
        return []

    monkeypatch.setattr(due.SQL, "rows", rows_of)
    await stage.set("MIN_JOBS_TO_PAUSE_managed", 10)
    async with stage.database.begin(reason="test") as work:
        await pause_failing(work, stage.parameters, KnownGrid(NullCache()), Lately())
        assert read == []
        await stage.set(f"{RATE}_managed_MC", 50)
        await pause_failing(work, stage.parameters, KnownGrid(NullCache()), Lately())
    assert read == ["failing_tasks"]


async def test_large_tasks_that_do_well_or_are_almost_done_do_not_hide_small_ones_that_fail(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "MOST_TASKS", 1)
    small = await failing(connection)
    await failing(connection, finished=100_000, failed=9_000)
    await failing(connection, finished=1_000, failed=9_000, left=10)
    await failing(connection, finished=1_000, failed=9_000, gshare="Data")
    await stage.set(f"{RATE}_managed", 50)
    await stage.set(f"{RATE}_managed_Data", 95)
    assert list(await paused(stage)) == [small]


async def test_a_task_that_fails_alone_is_found_again_while_others_of_its_request_type_are_left(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "MOST_TASKS", 2)
    long_ago = {"request_type": "hash-1", "state_change_time": stage.clock.now - timedelta(hours=1)}
    first = await failing(connection, **long_ago)
    others = [await rows.task(connection, status="running", prod_source_label="managed", **long_ago) for _ in range(3)]
    await stage.set(f"{RATE}_managed", 50)
    for expected in (others[:2], [first, others[2]], []):
        found = await paused(stage)
        assert sorted(found) == sorted(expected)
        await rows.change(connection, "UPDATE tasks SET status = 'paused' WHERE task_id = ANY($1)", sorted(found))
        stage.clock.forward(hours=1)


async def test_a_task_that_fails_goes_on_until_all_others_of_its_request_type_pause(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "MOST_TASKS", 2)
    first = await failing(connection, request_type="hash-1", failed=800)
    second = await failing(connection, request_type="hash-1")
    others = [
        await rows.task(connection, status="running", prod_source_label="managed", request_type="hash-1")
        for _ in range(3)
    ]
    await stage.set(f"{RATE}_managed", 50)
    for expected in (others[:2], [first, second, others[2]]):
        found = await paused(stage)
        assert sorted(found) == sorted(expected) and f"task {first} of the same" in found[expected[-1]]
        await rows.change(connection, "UPDATE tasks SET status = 'paused' WHERE task_id = ANY($1)", sorted(found))
        stage.clock.forward(hours=1)


@pytest.mark.parametrize(
    ("finished", "failed", "done", "left", "told"),
    [
        (500, 500, 2000, 400, "500 of 1000 jobs failed (50 %); allowed: less than 50 %"),
        (500, 499, 2000, 400, None),
        (501, 500, 2000, 4000, None),
        (500, 500, 2000, 399, None),
        (0, 1000, 1000, 100, "1000 of 1000 jobs failed (100 %); allowed: less than 50 %"),
        (0, 1000, 1000, 99, None),
    ],
)
def test_jobs_ended_jobs_to_come_and_rate_decide_together(
    finished: int, failed: int, done: int, left: int, told: str | None
) -> None:
    task = FailingTask(7, "MC", None, finished, failed, done, left)
    assert pauses(task, PauseLimits(50.0, 1000, 100)) == told


@pytest.mark.parametrize(
    ("number_percent", "used_percent", "told"),
    [
        (None, 50.0, "failed jobs used 50 % of the HEP score seconds of its jobs; allowed: less than 50 %"),
        (None, 51.0, None),
        (20.0, 50.0, "250 of 1000 jobs failed (25 %); allowed: less than 20 %"),
        (None, None, None),
    ],
)
def test_a_quarter_of_the_jobs_may_have_used_half_of_the_hep_score_seconds(
    number_percent: float | None, used_percent: float | None, told: str | None
) -> None:
    task = FailingTask(7, "MC", None, 750, 250, 750, 400, finished_hep_score_s=7.5e6, failed_hep_score_s=7.5e6)
    assert pauses(task, PauseLimits(number_percent, hep_score_rate_percent=used_percent)) == told


async def test_a_task_is_judged_again_when_one_of_its_jobs_fails_or_a_rate_is_set(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    old = stage.clock.now - timedelta(days=1)
    task_id = await failing(connection, failed=400, state_change_time=old)
    await stage.set(f"{RATE}_managed", 50)
    assert await paused(stage) == {}
    stage.clock.forward(minutes=10)
    await rows.change(connection, "UPDATE task_job_counts SET n_failed = 700")
    assert await paused(stage) == {}, "nobody wrote when that was"
    stage.clock.forward(minutes=10)
    await rows.change(connection, "UPDATE task_job_counts SET tried_at = $1", stage.clock.now - timedelta(minutes=11))
    assert [*await paused(stage)] == [task_id]
    stage.clock.forward(minutes=30)
    assert await paused(stage) == {}, "it was asked to pause"
    stage.clock.forward(minutes=10)
    await stage.set(f"{RATE}_managed", 40)
    assert [*await paused(stage)] == [task_id], "all are judged by the new rate"
