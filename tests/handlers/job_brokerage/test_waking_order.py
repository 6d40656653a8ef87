"""Who goes on first when there is room for a few, and queues at which a pilot asks again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage import waking
from services.job_brokerage.app import build
from shared.db import Database
from shared.events import StatisticsChanged
from shared.runtime.service import Context, Service
from tests.handlers.events import started
from tests.handlers.grids import load_grid
from tests.handlers.job_brokerage.test_waking import FLOOR, QUEUES, fill, hear, look, wait_in_vain


async def execute(database: Database, text: str, *arguments: Any) -> None:
    async with database.read() as connection:
        await connection.execute(text, *arguments)


@pytest.fixture
async def service(database: Database, context: Context) -> Service:
    await load_grid(database)
    await fill(database, *QUEUES)
    return await started(build(context))


async def test_the_share_that_has_least_of_what_is_due_to_it_goes_first_then_priority_then_age(
    database: Database, service: Service
) -> None:
    await execute(
        database,
        "INSERT INTO shares (gshare, value, parent, position) VALUES ('MC', 50, NULL, 1), ('Data', 50, NULL, 2)"
        " ON CONFLICT (gshare) DO UPDATE SET value = 50, parent = NULL",
    )
    await execute(
        database,
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) VALUES"
        " ('Q_DELTA', 'SCORE', 'MC', 'u', 'running', 900, 900), ('Q_DELTA', 'SCORE', 'Data', 'u', 'running', 10, 10)",
    )
    waiting = [
        await wait_in_vain(database, service, gshare=gshare, current_priority=priority)
        for gshare, priority in (("MC", 900), ("Data", 100), ("Data", 300), ("Data", 300), ("MC", 950))
    ]
    await execute(database, "UPDATE waits SET n_jobs = 5, changed_by = pg_current_xact_id()::text::bigint")
    woken: list[int] = []
    for _ in waiting:
        await fill(database, "Q_BETA", n_jobs=FLOOR - len(woken) * 5 - 1)  # room for one more task
        woken += [task_id for one in await hear(database, service, "Q_BETA") for task_id in one.task_ids]
    assert woken == [waiting[place].task_id for place in (2, 3, 1, 4, 0)]


async def test_a_task_at_queues_without_pilots_goes_on_when_one_asks_for_work_there(
    database: Database, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "LOOK_FOR_PILOTS_EVERY", timedelta(0))
    await load_grid(database)
    await execute(
        database,
        "INSERT INTO queue_activity (queue, last_pilot_at, statistics_version)"
        " SELECT queue, orrery_now() - interval '9 hours', 1 FROM unnest($1::text[]) AS queue",
        QUEUES,
    )
    service = await started(build(context))
    held = await wait_in_vain(database, service)
    async with database.read() as connection:
        causes = await connection.fetchval("SELECT causes -> 'queues' FROM waits WHERE task_id = $1", held.task_id)
    assert {held_by[0] for held_by in causes} == {"pilots"}
    assert await published(database, service) == ()
    await execute(database, "UPDATE queue_activity SET last_pilot_at = orrery_now() WHERE queue = 'Q_GAMMA'")
    assert await look(database, service) == []
    assert await published(database, service) == ("Q_GAMMA",)
    (event,) = await hear(database, service, "Q_GAMMA")
    assert (event.task_ids, event.cause) == ((held.task_id,), "room at a queue")


async def published(database: Database, service: Service) -> tuple[str, ...]:
    """Queues whose statistics are told anew."""
    publish = next(one.run for one in service.periodic if one.name == "publish-statistics")
    async with database.begin(reason="publish") as work:
        await publish(work)
        return tuple(queue for event in work.emitted if isinstance(event, StatisticsChanged) for queue in event.queues)
