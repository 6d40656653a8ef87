"""One caller's reads and transactions leave sessions for those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.db import Database
from shared.db.holders import MOST_WAITING, TooManyOfOne, acting_for, for_all


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[Database]:
    """Seven sessions for transactions beside the relay's, four for reads."""
    database = await Database.connect(database_url, actor="test", max_size=8)
    yield database
    await database.close()


class Heavy:
    """Reads or transactions of one caller that go on until they are told to end."""

    def __init__(self, database: Database, holder: str | None, *, writes: bool) -> None:
        self._database, self._holder, self._writes = database, holder, writes
        self.n_running = self.most_running = 0
        self.may_end = asyncio.Event()

    async def run(self) -> None:
        with acting_for(self._holder):
            async with self._database.begin(reason="t") if self._writes else self._database.read():
                self.n_running += 1
                self.most_running = max(self.most_running, self.n_running)
                await self.may_end.wait()
                self.n_running -= 1


async def quick(database: Database, holder: str, *, writes: bool) -> None:
    with acting_for(holder):
        if writes:
            async with database.begin(reason="t") as work:
                await work.connection.fetchval("SELECT 1")
        else:
            async with database.read() as connection:
                await connection.fetchval("SELECT 1")


@pytest.mark.parametrize(("writes", "most"), [(False, 2), (True, 3)], ids=["reads", "transactions"])
async def test_two_hundred_of_one_caller_leave_sessions_for_another(small: Database, writes: bool, most: int) -> None:
    heavy = Heavy(small, "ada", writes=writes)
    running = [asyncio.create_task(heavy.run()) for _ in range(MOST_WAITING)]
    async with asyncio.timeout(5):
        while heavy.n_running < most:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await quick(small, "bob", writes=writes)
        await asyncio.gather(*(quick(small, f"c{number}", writes=writes) for number in range(50)))
    assert heavy.n_running == heavy.most_running == most
    heavy.may_end.set()
    await asyncio.gather(*running)
    assert heavy.most_running == most, "the others waited, and none was lost"


async def test_who_has_too_many_waiting_is_told_and_others_are_not(small: Database) -> None:
    heavy = Heavy(small, "ada", writes=False)
    running = [asyncio.create_task(heavy.run()) for _ in range(MOST_WAITING + 2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyOfOne, match="202 reads of ada are under way or wait already"):
        await quick(small, "ada", writes=False)
    await quick(small, "bob", writes=False)
    heavy.may_end.set()
    await asyncio.gather(*running)
    await quick(small, "ada", writes=False)


async def test_what_nobody_asked_for_has_all_sessions(small: Database) -> None:
    heavy = Heavy(small, None, writes=False)
    running = [asyncio.create_task(heavy.run()) for _ in range(4)]
    async with asyncio.timeout(5):
        while heavy.n_running < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert heavy.n_running == 4, "each of the four sessions is lent"
    heavy.may_end.set()
    await asyncio.gather(*running)


async def test_what_several_wait_for_takes_no_turn_of_the_caller_who_began_it(small: Database) -> None:
    heavy = Heavy(small, "ada", writes=False)
    running = [asyncio.create_task(heavy.run()) for _ in range(2)]

    async def shared() -> int:
        async with small.read() as connection:
            return int(await connection.fetchval("SELECT 7"))

    with acting_for("ada"):
        async with asyncio.timeout(5):
            assert await for_all(shared()) == 7
        waiting = asyncio.create_task(shared())
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done(), "as ada it would wait for her own"
    heavy.may_end.set()
    await asyncio.gather(*running, waiting)


async def test_who_has_a_session_does_not_wait_for_itself(small: Database) -> None:
    with acting_for("ada"):
        async with small.read() as first, small.read() as second, small.read() as third:
            assert [await one.fetchval("SELECT 1") for one in (first, second, third)] == [1, 1, 1]
