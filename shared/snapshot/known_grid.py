"""The grid alone, for who asks only what queues could ever run: read again when its version changed."""

from __future__ import annotations

import asyncpg

from shared.brokerage.world import World
from shared.cache import Cache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader


class KnownGrid:
    """An idle world; empty until a grid is loaded."""

    def __init__(self, cache: Cache) -> None:
        self._reader = GridReader(cache)
        self._world = World.of(Grid({}, {}, {}))

    async def world(self, connection: asyncpg.Connection) -> World:
        """The grid as the database has it now, without any load."""
        version, _, _ = await self._reader.versions(connection)
        if version != self._world.version:
            self._world = World.of(await self._reader.grid(connection, version), version=version)
        return self._world
