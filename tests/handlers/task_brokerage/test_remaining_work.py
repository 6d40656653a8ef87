"""RW of the nuclei: kept by events, corrected where no event came, by several replicas at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from services.task_brokerage import handlers
from services.task_brokerage.app import build
from services.task_brokerage.store.tasks import SQL, note_work
from shared.db import Database
from shared.events import TaskCompleted, TaskDefined, TaskProgressed, TaskReady
from shared.runtime.service import Service
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.task_brokerage.test_tasks import a_task, task_row


async def work_of(database: Database) -> dict[tuple[str, int], float]:
    async with database.read() as connection:
        found = await connection.fetch("SELECT nucleus, priority, hs06_s FROM nucleus_remaining_work WHERE hs06_s > 0")
    return {(row["nucleus"], row["priority"]): row["hs06_s"] for row in found}


def progressed(task_id: int) -> TaskProgressed:
    return TaskProgressed(
        task_id=task_id, status="running", files_finished=1, files_failed=0, files_total=10, live_jobs=1
    )


async def test_remaining_work_is_kept_current_by_events(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    task_id = await a_task(database, current_priority=500)
    await deliver(database, service, TaskDefined(task_id=task_id))
    nucleus = (await task_row(database, task_id))["nucleus"]
    assert await work_of(database) == {(nucleus, 500): 1000 * 100}, "raised at once by the assignment"
    async with database.read() as connection:
        await connection.execute("UPDATE task_datasets SET n_events_used = 400 WHERE task_id = $1", task_id)
    for _ in range(2):
        await deliver(database, service, progressed(task_id))
        assert await work_of(database) == {(nucleus, 500): 600 * 100}
    async with database.read() as connection:
        await connection.execute("UPDATE tasks SET current_priority = 900 WHERE task_id = $1", task_id)
    await deliver(database, service, progressed(task_id))
    assert await work_of(database) == {(nucleus, 900): 600 * 100}


async def test_a_task_that_ended_leaves_no_work_even_if_its_event_was_lost(database, context) -> None:
    await load_grid(database)
    service = await started(build(context))
    ended = await a_task(database, status="running", nucleus="ALPHA", cpu_time=None)
    missed = await a_task(database, status="running", nucleus="BETA", current_priority=3)
    await deliver(database, service, TaskReady(task_id=ended))
    assert await work_of(database) == {("ALPHA", 100): 1000 * 300}, "300 HS06 s where the CPU time is not known"
    async with database.begin(reason="test") as work:
        await work.connection.execute("UPDATE tasks SET status = 'prepared' WHERE task_id = $1", ended)
    correct = next(one for one in service.periodic if one.name == "correct-remaining-work")
    async with database.begin(reason="test") as work:
        await correct.run(work)
    assert await work_of(database) == {("BETA", 3): 1000 * 100}
    await deliver(database, service, TaskCompleted(task_id=missed, status="done"))
    assert await work_of(database) == {("BETA", 3): 1000 * 100}, "its row still says that it runs"


async def correct(database: Database, service: Service) -> None:
    periodic = next(one for one in service.periodic if one.name == "correct-remaining-work")
    async with database.begin(reason="test") as work:
        await periodic.run(work)


async def change(database: Database, statement: str, *arguments: object) -> None:
    async with database.begin(reason="test") as work:
        await work.connection.execute(statement, *arguments)


async def test_tasks_without_events_left_do_not_keep_others_from_being_corrected(
    database, context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "CORRECTED_AT_ONCE", 2)
    service = await started(build(context))
    for _ in range(4):
        await a_task(database, n_events=0, status="running", nucleus="ALPHA")
    for _ in range(3):
        await a_task(database, status="running", nucleus="BETA")
    await correct(database, service)
    assert await work_of(database) == {("BETA", 100): 2 * 1000 * 100}
    await correct(database, service)
    assert await work_of(database) == {("BETA", 100): 3 * 1000 * 100}


async def test_events_that_were_used_without_an_event_are_corrected(database, context) -> None:
    service = await started(build(context))
    task_id = await a_task(database, status="running", nucleus="ALPHA")
    await deliver(database, service, TaskReady(task_id=task_id))
    await change(database, "UPDATE task_datasets SET n_events_used = 400 WHERE task_id = $1", task_id)
    await correct(database, service)
    assert await work_of(database) == {("ALPHA", 100): 600 * 100}
    await change(database, "UPDATE task_datasets SET n_events_used = 1000 WHERE task_id = $1", task_id)
    await correct(database, service)
    assert await work_of(database) == {}


async def test_a_wrong_sum_of_a_nucleus_is_rebuilt_from_its_tasks(database, context) -> None:
    service = await started(build(context))
    for _ in range(2):
        await deliver(database, service, TaskReady(task_id=await a_task(database, status="running", nucleus="ALPHA")))
    await change(database, "UPDATE nucleus_remaining_work SET hs06_s = 5")
    await change(database, "INSERT INTO nucleus_remaining_work VALUES ('BETA', 100, 7), ('GAMMA', 900, 1e-30)")
    await correct(database, service)
    assert await work_of(database) == {("ALPHA", 100): 2 * 1000 * 100, ("GAMMA", 900): 1e-30}, "rounding is no mistake"
    await change(database, "DELETE FROM nucleus_remaining_work")
    await correct(database, service)
    assert await work_of(database) == {("ALPHA", 100): 2 * 1000 * 100}


async def test_where_nothing_is_wrong_nobody_waits(database, context) -> None:
    service = await started(build(context))
    task_id = await a_task(database, status="running", nucleus="ALPHA")
    await deliver(database, service, TaskReady(task_id=task_id))
    async with database.begin(reason="an event that is being worked on") as work:
        await SQL.value(work.connection, "lock_work", task_id=task_id)
        before = await work_of(database)
        async with asyncio.timeout(60):
            await correct(database, service)
    assert before == await work_of(database) == {("ALPHA", 100): 1000 * 100}


async def someone_waits(database: Database) -> None:
    """Until a transaction of this database waits for another's lock; other tests have databases of their own."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(60), database.read() as connection:
        while not await connection.fetchval(waiting):
            await connection.execute("SELECT pg_sleep(0.01)")


async def test_a_correction_and_an_event_never_wait_for_each_other_in_a_circle(database, context) -> None:
    service = await started(build(context))
    first, second = [await a_task(database, status="running", nucleus="ALPHA") for _ in range(2)]
    async with database.begin(reason="the event of the second task") as work:
        # It has begun, when the correction comes to its first task.
        await SQL.value(work.connection, "lock_work", task_id=second)
        correction = asyncio.create_task(correct(database, service))
        await someone_waits(database)
        await note_work(work, second)
    async with asyncio.timeout(60):
        await correction
    assert first < second
    assert await work_of(database) == {("ALPHA", 100): 2 * 1000 * 100}


async def test_events_and_corrections_at_the_same_time_leave_the_right_sums(database, context) -> None:
    service = await started(build(context))
    tasks = [await a_task(database, status="running", nucleus="ALPHA") for _ in range(12)]

    async def repeatedly(times: int, one: Callable[[], Awaitable[object]]) -> None:
        for _ in range(times):
            await one()

    async def move(task_id: int) -> None:
        """To the other nucleus, some events fewer, and no word of it until the next line."""
        await change(
            database,
            "UPDATE tasks SET nucleus = CASE nucleus WHEN 'ALPHA' THEN 'BETA' ELSE 'ALPHA' END WHERE task_id = $1",
            task_id,
        )
        await change(
            database, "UPDATE task_datasets SET n_events_used = n_events_used + 10 WHERE task_id = $1", task_id
        )
        await deliver(database, service, progressed(task_id))

    async with asyncio.timeout(100):
        await asyncio.gather(
            *(repeatedly(10, lambda task_id=task_id: move(task_id)) for task_id in tasks),
            *(repeatedly(20, lambda: correct(database, service)) for _ in range(2)),
        )
    async with database.read() as connection:
        wrong = [dict(row) for row in await SQL.rows(connection, "wrong_sums")]
        changed = await SQL.rows(connection, "changed_work", first_task_id=0, last_task_id=2**63 - 1, max_rows=100)
    assert (wrong, changed) == ([], [])
    assert await work_of(database) == {("ALPHA", 100): len(tasks) * 900 * 100}
