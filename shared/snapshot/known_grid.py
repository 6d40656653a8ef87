"""The grid alone, for who asks about queues, sites and storages: read again when its version changed."""

from __future__ import annotations

import asyncio

import asyncpg

from shared.brokerage.world import World
from shared.cache import Cache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader


class KnownGrid:
    """One copy for each process; empty until a grid is loaded.

    Asking costs one row unless the grid changed.
    """

    def __init__(self, cache: Cache) -> None:
        self._reader = GridReader(cache)
        self._version: int | None = None
        self._grid = Grid({}, {}, {})
        self._world: World | None = None
        self._reading = asyncio.Lock()

    async def grid(self, connection: asyncpg.Connection) -> Grid:
        """The grid as the database has it now, without links."""
        version, _, _ = await self._reader.versions(connection)
        if version != self._version:
            async with self._reading:  # who waited finds what the first has read
                version, _, _ = await self._reader.versions(connection)
                if version != self._version:
                    self._grid, self._version = await self._reader.grid(connection), version
        return self._grid

    @property
    def version(self) -> int:
        """That of the grid that was read last; 0 before any was."""
        return self._version or 0

    async def world(self, connection: asyncpg.Connection) -> World:
        """The grid with its links and columns, and without any load."""
        grid = await self.grid(connection)
        version, world = self._version or 0, self._world
        if world is None or version != world.version:
            linked = await self._reader.linked(connection, grid, version)
            self._world = world = World.of(linked, version=version)
        return world
