"""A task has one row that says what it waits for, and may have several chunks that no queue takes: by memory, dataset

or, for merging, by queue. What lifts the cause of any of them wakes the task.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from services.job_brokerage.app import build
from shared.db import Database
from shared.events import ChunkOffered, ChunkUnplaceable
from shared.runtime.service import Context, Service
from shared.waits import waker
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
        queues = await connection.fetchval("SELECT causes -> 'queues' FROM waits WHERE task_id = $1", ordinary.task_id)
    assert queues == []
