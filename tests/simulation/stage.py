"""A copy of the prepared world and the sessions in it, which one seed after another finds as if they were new.

To copy the world, to begin sessions and to plan every statement anew would take as long as a fifth of a run.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import asyncpg

from shared.db.codecs import prepare_connection
from tests import servers
from tests.databases import Origin
from tests.simulation.checking import Checker
from tests.simulation.crashes import open_pool

_NAME = "simulation"
_FORGET_TIME = "SELECT set_config('orrery.now', '', false)"


@dataclass
class Stage:
    """`pool`: of the services; `checker` and `reader`: those who watch; `own`: empties the database between runs.

    `seeds`: those that ran here before.
    """

    url: str
    pool: asyncpg.Pool
    checker: Checker
    reader: asyncpg.Connection
    own: asyncpg.Connection
    origin: Origin
    seeds: list[int] = field(default_factory=list)

    @classmethod
    async def set_up(cls, server_url: str, world: str) -> Stage:
        url = await servers.clone_template(server_url, world)
        settings = {"application_name": _NAME}
        reader = await asyncpg.connect(url, server_settings=settings, max_cached_statement_lifetime=0)
        await prepare_connection(reader)
        own = await asyncpg.connect(url, max_cached_statement_lifetime=0)
        pool, checker = await open_pool(url, name=_NAME), await Checker.connect(url, name=_NAME)
        return cls(url, pool, checker, reader, own, await Origin.of(own))

    async def is_clean_again(self) -> bool:
        """Whether the next seed can have it: all is as at the beginning, and nobody holds a session."""
        await end_other_tasks()
        try:
            if self.pool.get_idle_size() != self.pool.get_size():
                return False
            if not await self.origin.restore(self.own, kept_sessions=_NAME):
                return False
            async with asyncio.timeout(5.0):
                sessions = [await self.pool.acquire() for _ in range(self.pool.get_size())]
            for session in sessions:
                await session.execute(_FORGET_TIME)
                await self.pool.release(session)
            await self.reader.execute(_FORGET_TIME)
            await self.checker.forget_time()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            return False
        return True

    async def drop(self, server_url: str) -> None:
        """Whatever state it is in."""
        await end_other_tasks()
        self.pool.terminate()
        for session in (self.reader, self.own):
            session.terminate()
        await self.checker.close()
        await servers.drop_database(server_url, self.url)


async def end_other_tasks() -> None:
    """What a run left in the event loop does not reach the next one."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
