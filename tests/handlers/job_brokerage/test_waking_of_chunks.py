"""A task may have several parts that no queue takes: by memory, dataset or, for merging, by queue. Each has a row that
says what it waits for, and is woken by what lifts that.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.app import build
from services.watchdog.app import build as build_watchdog
from services.watchdog.checking.waiting import check_waiting
from shared.db import Database
from shared.events import ChunkOffered, ChunkUnplaceable, TaskReleased
from shared.runtime.service import Context, Service
from shared.waits import waker
from shared.waits.causes import Causes
from shared.waits.store import note_placed, note_wait
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.job_brokerage.test_chunks import an_offer
from tests.handlers.job_brokerage.test_waking import QUEUES, fill, forward, hear, hold, look, offer_again

TOO_MUCH_MB = 90_000


@pytest.fixture
async def service(database: Database, context: Context) -> Service:
    await load_grid(database)
    await fill(database, *QUEUES)
    return await started(build(context))


async def chunk_of_raised_memory(database: Database, offer: ChunkOffered) -> ChunkOffered:
    """A second chunk of the same task, which no queue of the grid has the memory for."""
    async with database.read() as connection:
        dataset_id = await connection.fetchval("SELECT dataset_id FROM task_datasets WHERE task_id = $1", offer.task_id)
        held = [{"dataset_id": dataset_id, "n_files": 1, "n_bytes": 1000, "n_events": 100}]
        chunk_id = await rows.chunk(
            connection,
            offer.task_id,
            dataset_id=dataset_id,
            ram_mb=TOO_MUCH_MB,
            n_events=100,
            input_bytes=1000,
            inputs=held,
        )
        await rows.file(connection, offer.task_id, dataset_id, lfn=f"of {chunk_id}", status="picked", chunk_id=chunk_id)
    return ChunkOffered(chunk_id=chunk_id, task_id=offer.task_id)


async def refused(database: Database, service: Service, offer: ChunkOffered) -> ChunkUnplaceable:
    (event,) = await deliver(database, service, offer)
    assert isinstance(event, ChunkUnplaceable)
    return event


async def wait_in_vain_with_two_chunks(database: Database, service: Service) -> tuple[ChunkOffered, ChunkOffered]:
    """The first found every queue full, the second none with enough memory; generation heard of both."""
    ordinary = await an_offer(database)
    raised = await chunk_of_raised_memory(database, ordinary)
    for offer in (ordinary, raised):
        await hold(database, offer, await refused(database, service, offer))
    return ordinary, raised


async def test_a_later_chunk_that_waits_for_something_else_hides_nothing_of_what_an_earlier_one_waits_for(
    database: Database, service: Service
) -> None:
    ordinary, _ = await wait_in_vain_with_two_chunks(database, service)
    assert await hear(database, service, *QUEUES) == []
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert (event.task_ids, event.cause) == ((ordinary.task_id,), "room at a queue")


async def test_the_second_chunk_of_a_wake_for_nothing_does_not_end_the_back_off(
    database: Database, service: Service
) -> None:
    ordinary, raised = await wait_in_vain_with_two_chunks(database, service)
    await fill(database, "Q_BETA", n_jobs=0)
    assert len(await hear(database, service, "Q_BETA")) == 1
    await fill(database, "Q_BETA")
    assert await hear(database, service, "Q_BETA") == []
    again = [await offer_again(database, ordinary), await chunk_of_raised_memory(database, raised)]
    told = [await refused(database, service, one) for one in again]
    for offer, event in zip(again, told, strict=True):
        await hold(database, offer, event)
    await fill(database, "Q_BETA", n_jobs=0)
    assert await hear(database, service, "Q_BETA") == []
    await forward(database, 10)
    (event,) = await look(database, service)
    assert event.task_ids == (ordinary.task_id,)


async def test_a_task_is_not_woken_before_every_chunk_that_was_decided_on_has_come_back(
    database: Database, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waker, "TOLD_WITHIN", timedelta(0))
    ordinary = await an_offer(database)
    raised = await chunk_of_raised_memory(database, ordinary)
    told = [await refused(database, service, one) for one in (raised, ordinary)]
    await hold(database, raised, told[0])
    await fill(database, "Q_BETA", n_jobs=0)
    assert await hear(database, service, "Q_BETA") == []  # the ordinary units are in a chunk still
    await hold(database, ordinary, told[1])
    (event,) = await look(database, service)
    assert event.task_ids == (ordinary.task_id,)


async def test_a_chunk_that_nobody_has_decided_on_yet_holds_no_wake_back(database: Database, service: Service) -> None:
    await wait_in_vain_with_two_chunks(database, service)
    ordinary = await an_offer(database)
    await hold(database, ordinary, await refused(database, service, ordinary))
    await chunk_of_raised_memory(database, ordinary)
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert ordinary.task_id in event.task_ids


async def test_a_task_that_was_woken_waits_only_for_what_holds_it_then(database: Database, service: Service) -> None:
    ordinary, raised = await wait_in_vain_with_two_chunks(database, service)
    await fill(database, "Q_BETA", n_jobs=0)
    assert len(await hear(database, service, "Q_BETA")) == 1
    again = await chunk_of_raised_memory(database, raised)
    await hold(database, again, await refused(database, service, again))
    async with database.read() as connection:
        rows = await connection.fetch(
            "SELECT work, causes -> 'queues' AS queues FROM waits WHERE task_id = $1 AND woken_at IS NULL",
            ordinary.task_id,
        )
    assert [tuple(row) for row in rows] == [("input", [])]


async def merges_that_wait(database: Database, service: Service, **task: str) -> ChunkOffered:
    """Merges that found every queue full; generation holds them with their chunk, and the task goes its own way."""
    offer = await an_offer(database, chunk={"kind": "merge"}, **task)
    event = await refused(database, service, offer)
    async with database.read() as connection:
        await connection.execute(
            "UPDATE chunks SET status = 'returned', ended_at = orrery_now(), retry_at = $2 WHERE chunk_id = $1",
            offer.chunk_id,
            event.retry_at,
        )
    return offer


@pytest.mark.parametrize("status", ["throttled", "exhausted", "pending", "finishing"])
async def test_merges_are_woken_whatever_state_their_task_is_in_while_it_may_merge(
    database: Database, service: Service, context: Context, status: str
) -> None:
    offer = await merges_that_wait(database, service, status=status)
    await fill(database, "Q_BETA", n_jobs=0)
    (woken,) = await hear(database, service, "Q_BETA")
    assert woken.task_ids == (offer.task_id,)
    (released,) = await deliver(database, build_watchdog(context), woken)
    assert isinstance(released, TaskReleased) and (released.task_id, released.status) == (offer.task_id, status)
    async with database.read() as connection:
        assert await connection.fetchval("SELECT status FROM tasks WHERE task_id = $1", offer.task_id) == status


async def test_a_task_that_waits_for_its_share_too_keeps_what_holds_its_merges(
    database: Database, service: Service
) -> None:
    offer = await merges_that_wait(database, service, status="running")
    async with database.begin(reason="its share has enough queued") as work:
        retry_at = work.now + timedelta(hours=1)
        await work.connection.execute("UPDATE tasks SET retry_at = $2 WHERE task_id = $1", offer.task_id, retry_at)
        await note_wait(work, "share", offer.task_id, Causes(caps=(("MC/SCORE", 0.0),)), retry_at)
    await fill(database, "Q_BETA", n_jobs=0)
    (woken,) = await hear(database, service, "Q_BETA")
    assert (woken.task_ids, woken.cause) == ((offer.task_id,), "room at a queue")
    async with database.read() as connection:
        rows = await connection.fetch("SELECT kind, work, woken_at IS NOT NULL AS is_woken FROM waits ORDER BY kind")
    assert [tuple(row) for row in rows] == [("queue", "merge", True), ("share", "task", False)]


async def test_job_sets_without_a_queue_are_woken_by_room_at_one(
    database: Database, service: Service, context: Context
) -> None:
    offer = await an_offer(database, chunk={"is_for_waiting": True}, status="running")
    event = await refused(database, service, offer)
    async with database.read() as connection:
        await connection.execute("UPDATE chunks SET status = 'returned', ended_at = orrery_now()")
        await connection.execute("UPDATE tasks SET co_jumbo_retry_at = $1", event.retry_at)
    await fill(database, "Q_BETA", n_jobs=0)
    (woken,) = await hear(database, service, "Q_BETA")
    (released,) = await deliver(database, build_watchdog(context), woken)
    assert isinstance(released, TaskReleased) and released.task_id == offer.task_id


async def test_a_pre_processing_job_that_no_queue_took_is_woken_by_room_at_one(
    database: Database, service: Service, context: Context
) -> None:
    offer = await an_offer(database, chunk={"kind": "preprocess"}, status="topreprocess")
    event = await refused(database, service, offer)
    async with database.read() as connection:
        await connection.execute("UPDATE chunks SET status = 'returned', ended_at = orrery_now()")
        await connection.execute("UPDATE tasks SET retry_at = $1", event.retry_at)
    await fill(database, "Q_BETA", n_jobs=0)
    (woken,) = await hear(database, service, "Q_BETA")
    (released,) = await deliver(database, build_watchdog(context), woken)
    assert isinstance(released, TaskReleased) and released.status == "topreprocess"


async def found_asleep(database: Database) -> list[str]:
    async with database.read() as connection:
        await connection.execute("UPDATE waits SET decided_at = decided_at - interval '2 minutes'")
        return [one.sentence for one in await check_waiting(connection)]


@pytest.mark.parametrize("kind", ["merge", "input", "job sets", "preprocess"])
async def test_the_check_finds_work_of_any_kind_that_nobody_wakes_although_a_queue_has_had_room_for_a_minute(
    database: Database, service: Service, kind: str
) -> None:
    if kind == "merge":
        offer = await merges_that_wait(database, service, status="running")
    elif kind == "input":
        offer = await an_offer(database)
        await hold(database, offer, await refused(database, service, offer))
    else:
        is_set = kind == "job sets"
        chunk = {"is_for_waiting": True} if is_set else {"kind": kind}
        offer = await an_offer(database, chunk=chunk, status="running" if is_set else "topreprocess")
        event = await refused(database, service, offer)
        async with database.read() as connection:
            await connection.execute("UPDATE chunks SET status = 'returned', ended_at = orrery_now()")
            await connection.execute("UPDATE tasks SET retry_at = $1, co_jumbo_retry_at = $1", event.retry_at)
    assert await found_asleep(database) == [], "every queue is full"
    await fill(database, "Q_BETA", n_jobs=0)
    [sentence] = await found_asleep(database)
    assert sentence.startswith(f"task {offer.task_id} waits with {kind}") and "Q_BETA" in sentence
    async with database.read() as connection:
        await rows.job(connection, offer.task_id, queue="Q_BETA")
        assert await check_waiting(connection) == [], "a job has moved there within the minute"


@pytest.mark.parametrize("kind", ["merge", "input", "job sets next jobs", "preprocess", "build", "job sets jumbo jobs"])
async def test_the_check_finds_work_of_any_kind_that_waits_without_anything_that_wakes_it(
    database: Database, service: Service, kind: str
) -> None:
    later = "orrery_now() + interval '1 hour'"
    chunk: dict[str, Any] = {"kind": kind, "queue": "Q_BETA"} if kind == "merge" else {"ram_mb": TOO_MUCH_MB}
    offer = await an_offer(database, chunk=chunk, status="topreprocess" if kind == "preprocess" else "running")
    async with database.read() as connection:
        await connection.execute("UPDATE chunks SET status = 'returned', ended_at = orrery_now()")
        assert await check_waiting(connection) == []
        if kind == "preprocess":
            await connection.execute(f"UPDATE tasks SET retry_at = {later}")
        elif kind == "build":
            await rows.change(connection, f"UPDATE tasks SET retry_at = {later}, split_rule = '{{\"useBuild\": true}}'")
            build = await rows.job(connection, offer.task_id, job_type="build", status="finished")
            assert await check_waiting(connection) == [], "its end is to be counted, which wakes the task"
            await rows.change(connection, "UPDATE jobs SET results_applied_at = orrery_now() WHERE job_id = $1", build)
        elif kind.startswith("job sets"):
            one = {"task_id": offer.task_id, "chunk_id": offer.chunk_id, "status": "open", "n_ready": 1}
            sizes = {"kind": "normal", "n_files": 1, "n_ranges": 1, "n_consumers": 1, "serials": {}, "queues": []}
            await rows.insert(connection, "job_sets", one | sizes)
            what = "job_sets SET retry_at" if kind.endswith("next jobs") else "tasks SET co_jumbo_retry_at"
            await connection.execute(f"UPDATE {what} = {later}")
        else:
            await connection.execute(f"UPDATE chunks SET retry_at = {later}")
        [found] = await check_waiting(connection)
        assert found.sentence.startswith(f"task {offer.task_id} waits with {kind}"), found.sentence
        assert found.sentence.endswith(", and nothing wakes it")


async def test_input_whose_memory_was_raised_since_it_was_woken_takes_room_for_itself_alone(
    database: Database, service: Service
) -> None:
    """Else the room that woke it would be kept for it once more, while others wait."""
    first, second = await wait_in_vain_with_two_chunks(database, service)
    async with database.begin(reason="woken and placed") as work:
        await work.connection.execute(
            "UPDATE waits SET woken_at = orrery_now(), woken_by = 'room at a queue', room_since = orrery_now(),"
            " part = (SELECT dataset_id::text FROM chunks WHERE chunk_id = $2) WHERE chunk_id = $1",
            first.chunk_id,
            second.chunk_id,
        )
        placed = await note_placed(work, "queue", first.task_id, second.chunk_id)
        assert placed is not None and placed.cause == "room at a queue"
        found = await work.connection.fetch("SELECT chunk_id FROM waits WHERE placed_at IS NOT NULL")
        assert [row["chunk_id"] for row in found] == [first.chunk_id]
