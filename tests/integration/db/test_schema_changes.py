"""A column is added to the table of jobs while they are claimed, and while somebody reads an old snapshot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from tests import rows

#: far more than a claim takes, far less than a statement that waits behind a change would
NOT_STOPPED_S = 1.0
N_JOBS = 400
#: as the dispatcher claims: what somebody else claims now is passed by
CLAIM = """
UPDATE jobs SET status = 'sent', worker = 'pilot', state_change_time = orrery_now()
 WHERE job_id = (SELECT job_id FROM jobs WHERE status = 'activated' ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING job_id
"""
#: who waits for a lock makes all wait that come after it: each try gives up at once
CHANGE = "SET LOCAL lock_timeout = '20ms'", "ALTER TABLE jobs ADD COLUMN of_next_release text"


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[list[asyncpg.Connection]]:
    """Who changes the table, who reads it for long, and two that claim."""
    async with AsyncExitStack() as stack:
        found = [await asyncpg.connect(database_url, server_settings={"timezone": "UTC"}) for _ in range(4)]
        for one in found:
            stack.push_async_callback(one.close)
        yield found


async def claim_all(session: asyncpg.Connection, paused: asyncio.Event) -> tuple[list[int], float]:
    """Claim by claim until none is left; the jobs, and the seconds of the longest claim."""
    claimed, longest = [], 0.0
    while True:
        started = time.monotonic()
        async with session.transaction():
            job_id = await session.fetchval(CLAIM)
        longest = max(longest, time.monotonic() - started)
        if job_id is None:
            return claimed, longest
        claimed.append(job_id)
        if len(claimed) >= N_JOBS // 4:
            await paused.wait()


async def changed(session: asyncpg.Connection) -> bool:
    """One try; whether it was made."""
    try:
        async with session.transaction():
            for statement in CHANGE:
                await session.execute(statement)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def test_a_column_comes_while_jobs_are_claimed_and_an_old_snapshot_only_puts_it_off(
    sessions: list[asyncpg.Connection],
) -> None:
    change, check, *claims = sessions
    task = await rows.task(change)
    await change.execute("ALTER TABLE jobs DISABLE TRIGGER USER")
    for _ in range(N_JOBS):
        await rows.job(change, task)
    await change.execute("ALTER TABLE jobs ENABLE TRIGGER USER")
    snapshot = check.transaction(isolation="repeatable_read", readonly=True)
    await snapshot.start()
    assert await check.fetchval("SELECT count(*) FROM jobs") == N_JOBS
    go_on = asyncio.Event()
    load = [asyncio.create_task(claim_all(one, go_on)) for one in claims]
    for _ in range(10):
        assert not await changed(change), "the snapshot reads the table"
    assert await check.fetchval("SELECT count(*) FROM jobs WHERE status = 'activated'") == N_JOBS
    await snapshot.rollback()
    go_on.set()
    tries = 1
    while not await changed(change):
        tries += 1
        assert tries < 500
    found = [await one for one in load]
    assert sorted(job_id for claimed, _ in found for job_id in claimed) == sorted(
        row["job_id"] for row in await change.fetch("SELECT job_id FROM jobs")
    ), "each was claimed once, by sessions whose statements were prepared before the change"
    assert max(longest for _, longest in found) < NOT_STOPPED_S
    assert await change.fetchval("SELECT of_next_release IS NULL FROM jobs LIMIT 1")
