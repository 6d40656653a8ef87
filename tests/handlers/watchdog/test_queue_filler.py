"""Production is sent to queues that are nearly empty and let go again, just before and after each number."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from services.task_definition.tasks.explaining import Explanation
from services.watchdog import filling
from services.watchdog.filling import Filling
from services.watchdog.policy.filling import QueueUse, is_empty, is_ripe, why_busy
from services.watchdog.store.filling import SQL
from shared.auth import Caller
from shared.cache import NullCache
from shared.events import TaskSiteRequested
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.snapshot import KnownGrid
from tests import rows
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_analysis_rebrokerage import queue, storage
from tests.rows_read import rows_read

QUEUE = Queue("Q", "S", QueueStatus.ONLINE, QueueType.PRODUCTION, core_count=1)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
USE = QueueUse(last_job_start_at=START)
OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


@pytest.mark.parametrize(
    ("use", "empty"),
    [
        (USE, True),
        (replace(USE, n_waiting=4), True),
        (replace(USE, n_waiting=5), False),
        (replace(USE, n_waiting=19, n_running=40), True),
        (replace(USE, n_waiting=20, n_running=40), False),
        (replace(USE, last_job_start_at=START - 24 * HOUR), True),
        (replace(USE, last_job_start_at=START - 24 * HOUR - SECOND), False),
        (QueueUse(), False),
        (QueueUse(n_slots=80, n_waiting=39), True),
        (QueueUse(n_slots=80, n_waiting=40), False),
    ],
)
def test_a_queue_is_empty_that_runs_jobs_and_has_few_waiting(use: QueueUse, empty: bool) -> None:
    assert is_empty(QUEUE, use, START) == empty


@pytest.mark.parametrize(
    "change", [{"status": QueueStatus.TEST}, {"min_rss_mb": 1}, {"jobseed": "es"}, {"core_count": 0},
               {"type": QueueType.ANALYSIS}]
)  # fmt: skip
def test_some_queues_are_never_filled(change: dict[str, Any]) -> None:
    assert not is_empty(replace(QUEUE, **change), USE, START)


def test_a_queue_is_filled_after_half_an_hour_or_at_once_where_its_slots_are_set() -> None:
    assert not is_ripe(START - 30 * MINUTE + SECOND, USE, START) and is_ripe(START - 30 * MINUTE, USE, START)
    assert is_ripe(START, replace(USE, n_slots=1), START)


@pytest.mark.parametrize(
    ("use", "busy"),
    [(replace(USE, n_waiting=7), False), (replace(USE, n_waiting=8), True),
     (replace(USE, n_waiting=30, n_running=40), False), (replace(USE, n_waiting=31, n_running=40), True)],
)  # fmt: skip
def test_a_queue_is_busy_with_more_than_three_eighths_of_what_may_wait(use: QueueUse, busy: bool) -> None:
    assert (why_busy(QUEUE, use) is not None) == busy
    assert why_busy(replace(QUEUE, status=QueueStatus.OFFLINE), USE) == "the queue is not online any more"


@pytest.fixture
async def grid(connection: asyncpg.Connection) -> None:
    """Q1 reads DISK1 and has been starting jobs; nothing waits there."""
    await storage(connection, "DISK1")
    await queue(connection, "Q1", astorages={"read_lan": ["DISK1"]}, corecount=1, releases=["ANY"])
    await rows.insert(connection, "queue_activity", {"queue": "Q1", "last_job_start_at": START})


async def waiting(connection: asyncpg.Connection, n_jobs: int) -> None:
    key = {"queue": "Q1", "resource_type": "SCORE", "gshare": "MC", "user_name": "u", "vo": "demo"}
    await rows.insert(connection, "queue_statistics", {**key, "status": "activated", "n_jobs": n_jobs, "n_cores": 1})


async def task(connection: asyncpg.Connection, *storages: str, ready: int = 50, left: int = 100, **values: Any) -> int:
    """A running task that may use so many files now, of as many that are left."""
    facts = {"status": "running", "resource_type": "SCORE", "ram_count": 1000, "ram_unit": "MB", "site": None, **values}
    task_id = await rows.task(connection, **facts)
    name = f"mc.input.{task_id}"
    counts = {"n_files": left + 7, "n_files_used": 7, "n_files_to_be_used": ready + 7}
    await rows.dataset(connection, task_id, type="input", dataset_name=name, **counts)
    number = await connection.fetchval(
        "INSERT INTO catalogue.datasets (scope, name, kind) VALUES ('mc', $1, 'dataset') RETURNING dataset_id", name
    )
    for one in storages or ("DISK1",):
        values = {"dataset_id": number, "storage": one, "n_files": 1, "n_bytes": 1, "complete": True}
        await rows.insert(connection, "catalogue.dataset_replicas", values)
    return task_id


async def look(stage: Stage) -> list[TaskSiteRequested]:
    """One look; what it asks for is done."""
    await stage.value("DELETE FROM watch_runs WHERE watch = 'queue_filler'")
    events = await stage.run(Filling(stage.parameters, KnownGrid(NullCache())).watch_empty_queues)
    asked = [event for event in events if isinstance(event, TaskSiteRequested)]
    async with stage.database.read() as connection:
        for one in asked:
            await rows.change(
                connection, "UPDATE tasks SET site = $2 WHERE task_id = $1", one.task_id, one.site or None
            )
    return asked


async def filled(stage: Stage) -> list[int]:
    """The tasks that are sent when the queue has been empty for half an hour."""
    assert await look(stage) == []
    stage.clock.forward(minutes=30)
    return [one.task_id for one in await look(stage)]


@pytest.mark.usefixtures("grid")
async def test_the_most_urgent_tasks_are_sent_to_a_queue_that_is_empty_for_half_an_hour(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    low, *high = [await task(connection, current_priority=priority) for priority in (100, 900, 800, 700)]
    assert await look(stage) == []
    stage.clock.forward(minutes=29, seconds=59)
    assert await look(stage) == []
    stage.clock.forward(seconds=1)
    asked = await look(stage)
    assert [(one.task_id, one.site, one.was, one.requested_by) for one in asked] == [
        (one, "Q1", "", "watchdog") for one in high
    ], f"three of a resource type, and not {low}"
    assert asked[0].reason == (
        "preassigned to Q1, which has been nearly empty since 2026-03-01 12:00 UTC and has its input"
    )
    assert await look(stage) == [], "they stay, and the queue has enough of them"


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    ("values", "goes"),
    [
        ({}, True),
        ({"ready": 49}, False),
        ({"left": 99}, False),
        ({"site": "Q2"}, False),
        ({"event_service": 1}, False),
        ({"status": "pending"}, False),
        ({"prod_source_label": "user"}, False),
        ({"core_count": 8}, False),
    ],
)
async def test_only_production_with_enough_input_that_the_queue_takes_is_sent(
    stage: Stage, connection: asyncpg.Connection, values: dict[str, Any], goes: bool
) -> None:
    one = await task(connection, **values)
    assert await filled(stage) == ([one] if goes else [])


@pytest.mark.usefixtures("grid")
async def test_tasks_without_input_there_stay_and_parameters_say_how_much_is_enough(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    await task(connection, "DISK2")
    small = await task(connection, ready=10, left=20)
    for key, value in (("MIN_FILES_READY_managed", 10.0), ("MIN_FILES_REMAINING_managed", 20.0)):
        await stage.set(key, value, component="queue_filler")
    assert await filled(stage) == [small]


@pytest.mark.usefixtures("grid")
async def test_with_none_allowed_nothing_is_sent(stage: Stage, connection: asyncpg.Connection) -> None:
    await stage.set("MAX_PREASSIGNED_TASKS_managed", 0.0, component="queue_filler")
    await task(connection)
    assert await filled(stage) == []


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    ("n_waiting", "statement", "why"),
    [
        (8, None, "8 jobs wait at the queue, more than 7.5"),
        (0, 'UPDATE queues SET data = data || \'{"status": "offline"}\'', "the queue is not online any more"),
        (0, "UPDATE tasks SET status = 'paused'", "it makes no jobs now, or has too few files left"),
        (0, "UPDATE task_datasets SET n_files_used = 8", "it makes no jobs now, or has too few files left"),
    ],
)
async def test_a_task_may_go_anywhere_again_and_is_left_alone_for_half_a_day(
    stage: Stage, connection: asyncpg.Connection, n_waiting: int, statement: str | None, why: str
) -> None:
    one = await task(connection)
    assert await filled(stage) == [one]
    if n_waiting:
        await waiting(connection, n_waiting)
    if statement is not None:
        await rows.change(connection, statement)
        await connection.execute("UPDATE versions SET version = version + 1")
    (asked,) = await look(stage)
    assert (asked.task_id, asked.site, asked.was) == (one, "", "Q1")
    assert asked.reason == f"may go to any queue again: {why}"
    await connection.execute("DELETE FROM queue_statistics")
    assert await look(stage) == []
    released: datetime = await stage.value("SELECT released_at FROM preassigned_tasks")
    assert released == stage.clock.now
    stage.clock.forward(hours=12)
    await look(stage)
    assert await stage.value("SELECT count(*) FROM preassigned_tasks") == 1
    stage.clock.forward(seconds=1)
    await look(stage)
    assert await stage.value("SELECT count(*) FROM preassigned_tasks WHERE released_at IS NOT NULL") == 0


@pytest.mark.usefixtures("grid")
async def test_queues_that_are_empty_have_their_turn_one_after_the_other(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "QUEUES_AT_ONCE", 1)
    await storage(connection, "DISK2")
    await queue(connection, "Q2", astorages={"read_lan": ["DISK2"]}, corecount=1, releases=["ANY"])
    await rows.insert(connection, "queue_activity", {"queue": "Q2", "last_job_start_at": START})
    await rows.insert(connection, "empty_queues", {"queue": "Q1", "empty_since": START - 2 * HOUR})
    await rows.insert(connection, "empty_queues", {"queue": "Q2", "empty_since": START - HOUR})
    task_of_q2 = await task(connection, "DISK2")
    sent = []
    for _ in range(3):
        stage.clock.forward(minutes=5)
        sent.append([one.task_id for one in await look(stage)])
    assert sent == [[], [task_of_q2], []], "Q1 has been empty for longer, and no task is for it"
    tried = await connection.fetch("SELECT queue, tried_at FROM empty_queues ORDER BY queue")
    assert [tuple(row) for row in tried] == [("Q1", START + 15 * MINUTE), ("Q2", START + 10 * MINUTE)]


@pytest.mark.usefixtures("grid")
@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"ready": 49}, "too few of its files may be used now (MIN_FILES_READY) or are left (MIN_FILES_REMAINING)"),
        ({"left": 99}, "too few of its files may be used now (MIN_FILES_READY) or are left (MIN_FILES_REMAINING)"),
        ({"core_count": 8},
         "no nearly empty queue that reads its input takes it: it needs another number of cores"),
        ({"ram_count": 9000}, "no nearly empty queue that reads its input takes it: it needs more memory"),
        ({"storages": ["DISK2"]}, "no nearly empty queue reads a storage that has its input"),
        ({"current_priority": 1},
         "the nearly empty queues that would take it have enough tasks (MAX_PREASSIGNED_TASKS)"),
    ],
)  # fmt: skip
async def test_explain_says_why_a_task_is_not_sent(
    stage: Stage, connection: asyncpg.Connection, values: dict[str, Any], why: str
) -> None:
    await queue(connection, "Q2", astorages={"read_lan": ["DISK9"]}, corecount=8, releases=["ANY"], maxrss=4000)
    await rows.change(connection, "UPDATE queues SET data = data || '{\"maxrss\": 4000}' WHERE queue = $1", "Q1")
    for _ in range(3):
        await task(connection, current_priority=900)
    one = await task(connection, *values.pop("storages", ()), **values)
    assert one not in await filled(stage)
    text = await explained(connection, stage, one)
    assert f"not sent to an empty queue: {why} (at each look since 2026-03-01 12:30:00 UTC)" in text
    stage.clock.forward(minutes=10)
    await look(stage)
    assert f"{why} (at each look since 2026-03-01 12:30:00 UTC)" in await explained(connection, stage, one)


async def explained(connection: asyncpg.Connection, stage: Stage, task_id: int) -> str:
    await connection.execute("SELECT set_config('orrery.now', $1, false)", stage.clock.now.isoformat())
    found = await Explanation(KnownGrid(NullCache()), stage.parameters).task(connection, task_id, OPERATOR)
    assert found is not None
    return str(found["text"])


@pytest.mark.usefixtures("grid")
async def test_explain_says_that_no_queue_is_empty_and_nothing_of_a_task_that_was_sent(
    stage: Stage, connection: asyncpg.Connection
) -> None:
    one = await task(connection, ready=49)
    told = await explained(connection, stage, one)
    assert told.endswith("not sent to an empty queue: no queue is known to be nearly empty")
    await look(stage)
    told = await explained(connection, stage, one)
    assert told.endswith("no queue has been nearly empty for long enough, or its turn has not come")
    stage.clock.forward(minutes=30)
    assert await look(stage) == []
    await rows.change(connection, "UPDATE task_datasets SET n_files_to_be_used = 100")
    assert [asked.task_id for asked in await look(stage)] == [one]
    assert "empty queue:" not in await explained(connection, stage, one)
    assert await stage.value("SELECT count(*) FROM passed_over") == 0


async def test_within_one_priority_the_search_begins_where_it_is(connection: asyncpg.Connection) -> None:
    await rows.change(
        connection,
        "INSERT INTO tasks (task_id, task_name, user_name, status, prod_source_label, current_priority)"
        " SELECT n, 't', 'u', 'running', 'managed', 500 FROM generate_series(1, 5000) n",
    )
    await connection.execute("ANALYZE tasks")
    given = {"label": "managed", "files_remaining": 100, "priority": 500, "after_id": 4000, "most": 50}
    arguments = tuple(map(given.get, SQL.parameters("fillable_tasks")))
    assert await rows_read(connection, SQL.text("fillable_tasks"), arguments) <= 2 * 50
    found = await connection.fetch(SQL.text("fillable_tasks"), *arguments)
    assert [row["task_id"] for row in found] == list(range(4001, 4051))


@pytest.mark.usefixtures("grid")
async def test_in_each_turn_all_tasks_are_looked_at_a_slice_at_a_time(
    stage: Stage, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "SLICE", 4)
    for _ in range(10):  # more urgent, and nothing for the queue
        await task(connection, "DISK2", current_priority=900)
    wanted = [await task(connection, current_priority=priority) for priority in (300, 200, 100)]
    watch = Filling(stage.parameters, KnownGrid(NullCache()))
    await rows.insert(connection, "watch_runs", {"watch": "queue_filler", "last_run_at": stage.clock.now})
    sent = []
    for minutes, n_slices in ((6, 1), (31, 4)):
        stage.clock.forward(minutes=minutes)
        for left in range(n_slices, 0, -1):
            async with stage.database.begin(reason="watch") as work:
                looked = await watch.watch_empty_queues(work)
                sent += [one.task_id for one in work.emitted]
            assert bool(looked) == (left > 1)
    assert sent == wanted
