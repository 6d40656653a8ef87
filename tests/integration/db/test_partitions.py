"""Partitions by day are made, emptied and dropped while a claim is under way and a check reads a snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from shared.db.partitions import (
    DAILY_TABLES,
    DAYS_AHEAD,
    MOST_MOVED,
    days_of,
    drop_outside,
    empty_or_drop,
    make_next_partition,
)

LOG = next(table for table in DAILY_TABLES if table.name == "transition_log")
#: far more than a claim takes, far less than the five seconds that it once waited
NOT_STOPPED_S = 1.0
ENTRY = (
    "INSERT INTO transition_log (at, entity, entity_id, task_id, to_status, actor, reason)"
    " SELECT $1, 'job', n, n, 'sent', 'test', 'claimed' FROM generate_series(1, $2::int) n"
)


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[list[asyncpg.Connection]]:
    """Maintenance, a check, a claim that does not end, and one claim after another."""
    async with AsyncExitStack() as stack:
        found = [await asyncpg.connect(database_url, server_settings={"timezone": "UTC"}) for _ in range(4)]
        for one in found:
            stack.push_async_callback(one.close)
        yield found


def at_noon(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=12)


async def today_of(connection: asyncpg.Connection) -> date:
    found: date = await connection.fetchval("SELECT (orrery_now() AT TIME ZONE 'UTC')::date")
    return found


async def at(connection: asyncpg.Connection, moment: datetime) -> None:
    await connection.execute("SELECT set_config('orrery.now', $1, false)", moment.isoformat())


async def claims(session: asyncpg.Connection, moment: datetime, over: asyncio.Event) -> float:
    """Claim after claim until it is over; seconds of the longest."""
    longest = 0.0
    while not over.is_set():
        started = time.monotonic()
        await session.execute(ENTRY, moment, 1)
        longest = max(longest, time.monotonic() - started)
    return longest


async def maintain(session: asyncpg.Connection, until: date) -> bool:
    """Make what is missing, empty and drop what is older; whether nothing was left to do."""
    try:
        while True:
            async with session.transaction():
                if await make_next_partition(session) is None:
                    break
        while old := [day for day in await days_of(session, LOG) if day < until]:
            async with session.transaction():
                await empty_or_drop(session, LOG, old)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def test_a_long_snapshot_and_a_running_claim_stop_nothing_and_are_not_stopped(
    sessions: list[asyncpg.Connection],
) -> None:
    maintenance, check, claim, others = sessions
    first = await today_of(maintenance)
    await maintenance.execute(ENTRY, at_noon(first), 100)
    later = first + timedelta(days=DAYS_AHEAD - 1)  # it has a partition, as all between have
    snapshot = check.transaction(isolation="repeatable_read", readonly=True)
    await snapshot.start()
    assert await check.fetchval("SELECT count(*) FROM transition_log") == 100
    running = claim.transaction()
    await running.start()
    await claim.execute(ENTRY, at_noon(later), 1)

    over = asyncio.Event()
    load = asyncio.create_task(claims(others, at_noon(later), over))
    await at(maintenance, at_noon(later))
    for _ in range(20):  # as the hourly work would, if it came back at once
        started = time.monotonic()
        assert not await maintain(maintenance, later), "the snapshot reads the log"
        assert time.monotonic() - started < NOT_STOPPED_S
    assert await check.fetchval("SELECT count(*) FROM transition_log") == 100
    assert (
        await claim.fetchval("SELECT count(*) FROM transition_log WHERE task_id = 1 AND at >= $1", at_noon(later)) > 0
    )
    await snapshot.rollback()
    await running.commit()
    is_done = False
    for _ in range(200):  # claims come between
        is_done = is_done or await maintain(maintenance, later)
    over.set()
    assert is_done
    assert await load < NOT_STOPPED_S
    expected = [later + timedelta(days=offset) for offset in range(DAYS_AHEAD)]
    assert await days_of(maintenance, LOG) == expected


async def test_old_days_are_emptied_before_any_is_dropped(sessions: list[asyncpg.Connection]) -> None:
    maintenance, check = sessions[:2]
    days = await days_of(maintenance, LOG)
    for day in days:
        await maintenance.execute(ENTRY, at_noon(day), 5)
    # a reader of today alone keeps the table, and none of the partitions that are emptied
    snapshot = check.transaction(isolation="repeatable_read", readonly=True)
    await snapshot.start()
    await check.fetchval(f"SELECT count(*) FROM {LOG.child(days[-1])}")
    await check.execute(f"LOCK TABLE ONLY {LOG.name} IN ACCESS SHARE MODE")
    old = days[:-1]
    with pytest.raises(asyncpg.LockNotAvailableError):
        while True:
            async with maintenance.transaction():
                assert not await empty_or_drop(maintenance, LOG, old)
    assert await maintenance.fetchval("SELECT count(*) FROM transition_log") == 5
    await snapshot.rollback()
    for _ in old:
        async with maintenance.transaction():
            assert await empty_or_drop(
                maintenance, LOG, [day for day in await days_of(maintenance, LOG) if day < days[-1]]
            )
    assert await days_of(maintenance, LOG) == days[-1:]


async def test_a_day_with_many_rows_outside_stays_there_and_is_dropped_in_slices(
    sessions: list[asyncpg.Connection],
) -> None:
    maintenance = sessions[0]
    day = await today_of(maintenance) + timedelta(days=30)
    await maintenance.execute(ENTRY, at_noon(day), MOST_MOVED + 1)
    await maintenance.execute(ENTRY, at_noon(day + timedelta(days=1)), MOST_MOVED)
    await at(maintenance, at_noon(day))
    assert await maintain(maintenance, day - timedelta(days=30))
    days = await days_of(maintenance, LOG)
    assert day not in days and day + timedelta(days=1) in days
    outside = "SELECT count(*) FROM transition_log_default"
    assert await maintenance.fetchval(outside) == MOST_MOVED + 1
    assert await drop_outside(maintenance, LOG, day, 500) == 0, "as old as may be"
    assert await drop_outside(maintenance, LOG, day + timedelta(days=1), 500) == 500
    assert await maintenance.fetchval(outside) == MOST_MOVED - 499
