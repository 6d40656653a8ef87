"""The grid in memory of a process: read at the first question, and again only when its version changed."""

from __future__ import annotations

import asyncio

from shared.cache import NullCache
from shared.db import Database
from shared.snapshot import KnownGrid
from tests.handlers.grids import load_grid, small_grid


async def test_the_grid_is_read_again_only_after_another_was_loaded(database: Database) -> None:
    known = KnownGrid(NullCache())
    async with database.read() as connection:
        assert (await known.grid(connection)).queues == {}
        await load_grid(database)
        first = await known.grid(connection)
        assert first.queues["Q_GAMMA"].output_storage(analysis=False) == "GAMMA_DATADISK"
        assert await known.grid(connection) is first and first.links == {}
        files = small_grid()
        files["queues"]["Q_GAMMA"]["astorages"] = {"write_lan": ["BETA_DATADISK"]}
        await load_grid(database, files)
        assert (await known.grid(connection)).queues["Q_GAMMA"].output_storage(analysis=False) == "BETA_DATADISK"


async def test_the_world_of_a_grid_has_its_links_and_is_built_once(database: Database) -> None:
    version = await load_grid(database)
    known = KnownGrid(NullCache())
    async with database.read() as connection:
        world = await known.world(connection)
        assert world.version == version and world.grid.links and len(world.columns)
        assert await known.world(connection) is world


async def test_who_asks_while_the_grid_is_read_gets_what_was_read(database: Database) -> None:
    await load_grid(database)
    known = KnownGrid(NullCache())

    async def ask() -> int:
        async with database.read() as connection:
            return id(await known.grid(connection))

    assert len(set(await asyncio.gather(*(ask() for _ in range(4))))) == 1


async def test_a_record_that_is_damaged_is_left_out_and_the_others_are_known(database: Database) -> None:
    await load_grid(database)
    async with database.read() as connection:
        await connection.execute("""UPDATE queues SET data = data || '{"status": "asleep"}' WHERE queue = 'Q_BETA'""")
        grid = await KnownGrid(NullCache()).grid(connection)
    assert sorted(grid.queues) == ["Q_ALPHA", "Q_DELTA", "Q_GAMMA"]
