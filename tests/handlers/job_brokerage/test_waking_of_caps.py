"""Tasks that caps of groups, a disk quota, the usage of a share or an advertisement held, and what is measured."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.job_brokerage.app import build
from services.watchdog.app import build as build_watchdog
from shared.db import Database
from shared.events import ChunkBrokered, TasksWoken
from shared.runtime.service import Context, Service
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid
from tests.handlers.job_brokerage.test_chunks import an_offer
from tests.handlers.job_brokerage.test_waking import (
    FLOOR,
    QUEUES,
    context_of,
    fill,
    hear,
    hold,
    last_event,
    look,
    offer_again,
    wait_in_vain,
    woken_since,
)

ANALYSIS = {"task_type": "anal", "prod_source_label": "user", "gshare": "User Analysis", "user_name": "alice"}


async def execute(database: Database, text: str, *arguments: Any) -> None:
    async with database.read() as connection:
        await connection.execute(text, *arguments)


async def caps_of(database: Database, task_id: int) -> list[list[Any]]:
    async with database.read() as connection:
        return await connection.fetchval("SELECT causes -> 'caps' FROM waits WHERE task_id = $1", task_id)


async def begin(database: Database, context: Context, *full: str) -> Service:
    await load_grid(database)
    await fill(database, *full)
    return await started(build(context))


async def test_a_task_that_a_cap_of_its_group_held_goes_on_when_the_group_has_fewer_jobs(
    database: Database, context: Context
) -> None:
    await execute(
        database,
        "INSERT INTO parameters (app, component, key, value, type) "
        "VALUES ('pandaserver', 'prio_mgr', 'CAP_RUNNING_GROUP_JOBS', '1', 'int')",
    )
    service = await begin(database, context)
    async with database.read() as connection:
        busy = await rows.task(connection, working_group="phys-higgs")
        for _ in range(2):
            await rows.job(connection, busy, status="running", queue="Q_ALPHA")
    held = await wait_in_vain(database, service, working_group="phys-higgs", **ANALYSIS)
    assert await caps_of(database, held.task_id) == [["user_running_jobs", 1.0]]
    assert await look(database, service) == []
    async with database.begin(reason="test") as work:
        await work.connection.execute("SET LOCAL session_replication_role = replica")
        await work.connection.execute("UPDATE jobs SET status = 'finished' WHERE task_id = $1", busy)
    (event,) = await look(database, await started(build(context_of(context))))
    assert (event.task_ids, event.cause) == ((held.task_id,), "usage of the user or group")


async def test_a_task_that_was_woken_for_a_cap_leaves_the_room_of_queues_to_others(
    database: Database, context: Context
) -> None:
    service = await begin(database, context, *QUEUES)
    capped, other = [await wait_in_vain(database, service) for _ in range(2)]
    await execute(
        database,
        "UPDATE waits SET woken_at = orrery_now(), woken_by = 'usage of the user or group', woken_for = 'user demo u',"
        " n_jobs = 250, changed_by = pg_current_xact_id()::text::bigint WHERE task_id = $1", capped.task_id,
    )  # fmt: skip
    await fill(database, "Q_BETA", n_jobs=FLOOR)
    (event,) = await hear(database, service, "Q_BETA")
    assert (event.task_ids, event.cause) == ((other.task_id,), "room at a queue")


@pytest.mark.parametrize("group", ["", "phys-higgs"])
async def test_a_task_over_the_disk_quota_of_its_user_goes_on_when_there_is_space_and_not_before(
    database: Database, context: Context, group: str
) -> None:
    await execute(database, "INSERT INTO users (user_name, disk_quota_gb, disk_used_gb) VALUES ('alice', 100, 150)")
    service = await begin(database, context)
    held = await wait_in_vain(database, service, working_group=group, **ANALYSIS)
    assert await caps_of(database, held.task_id) == [["disk_quota", 100.0]]
    assert await look(database, service) == []
    await execute(database, "UPDATE users SET disk_used_gb = 20")
    (event,) = await look(database, await started(build(context_of(context))))
    assert event.task_ids == (held.task_id,)


@pytest.mark.parametrize("raised_gb", [200, None])
async def test_a_task_over_the_disk_quota_of_its_user_goes_on_when_the_quota_is_raised_or_taken_away(
    database: Database, context: Context, raised_gb: int | None
) -> None:
    await execute(database, "INSERT INTO users (user_name, disk_quota_gb, disk_used_gb) VALUES ('alice', 100, 150)")
    service = await begin(database, context)
    held = await wait_in_vain(database, service, **ANALYSIS)
    await execute(database, "UPDATE users SET disk_quota_gb = 149")
    assert await look(database, await started(build(context_of(context)))) == []
    await execute(database, "UPDATE users SET disk_quota_gb = $1", raised_gb)
    (event,) = await look(database, await started(build(context_of(context))))
    assert (event.task_ids, event.cause) == ((held.task_id,), "usage of the user or group")


async def test_a_task_that_the_usage_of_its_share_held_goes_on_when_the_share_uses_less(
    database: Database, context: Context
) -> None:
    service = await begin(database, context, *QUEUES)
    await execute(
        database,
        "INSERT INTO shares (gshare, value, parent, position) VALUES ('MC', 50, NULL, 1), "
        "('User Analysis', 50, NULL, 2) ON CONFLICT DO NOTHING",
    )
    await execute(
        database,
        "INSERT INTO queue_statistics (queue, resource_type, gshare, user_name, status, n_jobs, n_cores) "
        "VALUES ('Q_ALPHA', 'SCORE', 'User Analysis', 'bob', 'running', 90, 90), "
        "('Q_ALPHA', 'SCORE', 'MC', 'u', 'running', 10, 10)",
    )
    held = await wait_in_vain(database, service)
    await execute(
        database,
        'UPDATE waits SET causes = \'{"queues": [], "lifts": [], "parameters": [], '
        '"caps": [["share_usage", 95]]}\', changed_by = pg_current_xact_id()::text::bigint',
    )
    first = await started(build(context_of(context)))
    assert await look(database, first) == []
    await execute(database, "UPDATE queue_statistics SET n_cores = 0 WHERE user_name = 'bob'")
    (event,) = await look(database, await started(build(context_of(context))))
    assert (event.task_ids, event.cause) == ((held.task_id,), "usage of the share")


async def test_a_task_that_an_advertisement_held_goes_on_with_the_next_one(
    database: Database, context: Context
) -> None:
    service = await begin(database, context, *QUEUES)
    held = await wait_in_vain(database, service)
    await execute(
        database,
        "UPDATE waits SET causes = jsonb_set(causes, '{lifts}', '[\"ADVERTISEMENT\"]'), "
        "changed_by = pg_current_xact_id()::text::bigint",
    )
    assert await look(database, service) == []
    await execute(
        database,
        "INSERT INTO site_adverts (site, max_jobs, expires_at) VALUES ('ALPHA', 10, orrery_now() + interval '1 hour')",
    )
    (event,) = await look(database, service)
    assert (event.task_ids, event.cause) == ((held.task_id,), "an advertisement")


async def test_wakes_are_counted_by_cause_with_those_that_placed_and_those_that_found_nothing(
    database: Database, context: Context
) -> None:
    service = await begin(database, context, *QUEUES)
    placed, futile = [await wait_in_vain(database, service, current_priority=p) for p in (900, 100)]
    await fill(database, "Q_BETA", n_jobs=FLOOR)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (placed.task_id,)
    (brokered,) = await deliver(database, service, await offer_again(database, placed))
    assert isinstance(brokered, ChunkBrokered)
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (futile.task_id,)
    await execute(database, "UPDATE tasks SET ram_count = 90000 WHERE task_id = $1", futile.task_id)
    again = await offer_again(database, futile)
    (unplaceable,) = await deliver(database, service, again)
    await hold(database, again, unplaceable)
    measured = context.metrics
    cause = {"cause": "room at a queue"}
    assert measured.get_sample_value("orrery_wakes_total", cause) == 2
    assert measured.get_sample_value("orrery_wakes_placed_total", cause) == 1
    assert measured.get_sample_value("orrery_wakes_futile_total", cause) == 1
    assert measured.get_sample_value("orrery_room_to_placement_seconds_count") == 1
    assert 0 <= (measured.get_sample_value("orrery_room_to_placement_seconds_sum") or -1) < 60


async def test_replicas_that_look_at_the_same_moment_wake_each_task_once(database: Database, context: Context) -> None:
    service = await begin(database, context, *QUEUES)
    waiting = [await wait_in_vain(database, service) for _ in range(8)]
    replicas = [service, *[await started(build(context_of(context))) for _ in range(3)]]
    await fill(database, "Q_BETA", n_jobs=0)
    for one in replicas:
        async with database.begin(reason="test") as work:
            await next(p.run for p in one.periodic if p.name == "refresh")(work)
    seen = await last_event(database)
    at_once = asyncio.Barrier(len(replicas))

    async def look_together(one: Service) -> None:
        async with database.begin(reason="look") as work:
            await at_once.wait()
            await next(p.run for p in one.periodic if p.name == "wake")(work)

    for _ in range(3):
        await asyncio.gather(*(look_together(one) for one in replicas))
    woken: list[TasksWoken] = await woken_since(database, seen)
    task_ids = [task_id for event in woken for task_id in event.task_ids]
    assert sorted(task_ids) == [one.task_id for one in waiting]


async def test_a_merge_chunk_that_no_queue_took_goes_on_as_soon_as_one_drains(
    database: Database, context: Context
) -> None:
    service = await begin(database, context, *QUEUES)
    offer = await an_offer(database, chunk={"kind": "merge"}, status="prepared")
    (unplaceable,) = await deliver(database, service, offer)
    held = "UPDATE chunks SET status = 'returned', ended_at = orrery_now(), retry_at = $1"
    await execute(database, held, unplaceable.retry_at)
    await fill(database, "Q_BETA", n_jobs=0)
    (event,) = await hear(database, service, "Q_BETA")
    assert event.task_ids == (offer.task_id,)
    (released,) = await deliver(database, build_watchdog(context), event)
    assert (released.task_id, released.status) == (offer.task_id, "prepared")
