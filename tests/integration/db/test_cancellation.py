"""A cancellation comes through whatever the connection does: a process that was asked to stop must stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import asyncpg
import pytest

from shared.cancelling import end
from shared.db import Database

USES: dict[str, Callable[[Database], AbstractAsyncContextManager[Any]]] = {
    "begin": lambda database: database.begin(reason="test"),
    "transaction": lambda database: database.transaction(),
    "read": lambda database: database.read(),
}


@pytest.fixture
async def one_connection(database_url: str) -> AsyncIterator[Database]:
    """A pool of one: what is not given back is missed by the next user."""
    database = await Database.connect(database_url, actor="test", max_size=1)
    yield database
    await database.close()


async def _break_connection(database_url: str, backend_pid: int) -> None:
    killer = await asyncpg.connect(database_url)
    await killer.execute("SELECT pg_terminate_backend($1)", backend_pid)
    await killer.close()


@pytest.mark.parametrize("use", USES)
async def test_who_is_cancelled_while_the_connection_is_broken_ends_and_the_connection_is_replaced(
    one_connection: Database, database_url: str, use: str
) -> None:
    lent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    broken = asyncio.Event()  # this side has read what the server said last

    gave_up = False

    async def work_for_ever() -> None:
        while not gave_up:
            try:
                async with USES[use](one_connection) as borrowed:
                    connection = getattr(borrowed, "connection", borrowed)
                    pid = await connection.fetchval("SELECT pg_backend_pid()")
                    if not lent.done():
                        connection.add_termination_listener(lambda _: broken.set())
                        lent.set_result(pid)
                    await asyncio.Event().wait()  # until cancelled
            except Exception:
                await asyncio.sleep(0)

    worker = asyncio.create_task(work_for_ever())
    pid = await asyncio.wait_for(lent, 60)
    await _break_connection(database_url, pid)
    await asyncio.wait_for(broken.wait(), 60)
    worker.cancel()
    await asyncio.wait({worker}, timeout=60)
    gave_up = True
    assert worker.cancelled()
    async with one_connection.read() as again:
        assert await again.fetchval("SELECT pg_backend_pid()") != pid


async def test_an_error_of_the_block_that_nobody_cancelled_stays_what_it_was(one_connection: Database) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with one_connection.begin(reason="test") as work:
            await work.connection.fetchval("SELECT 1/0")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), one_connection.read() as connection:
            await connection.fetchval("SELECT pg_sleep(30)")


async def test_ending_tells_a_task_that_loses_its_cancellation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.cancelling.AGAIN_AFTER_S", 0.01)
    told = 0

    async def deaf() -> None:
        nonlocal told
        while told < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told += 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await asyncio.wait_for(end([task]), 60)
    assert (task.done(), told) == (True, 3)


@pytest.mark.parametrize("use", USES)
async def test_what_a_lost_connection_cancels_is_an_error_and_its_session_is_given_back(
    one_connection: Database, use: str
) -> None:
    for _ in range(3):  # a session that is not given back is missed by the next
        with pytest.raises(ConnectionError, match="lost connection"):
            async with asyncio.timeout(60), USES[use](one_connection):
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
