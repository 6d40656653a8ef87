"""Holds the current world of one process and replaces it when something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import asyncpg

from shared.brokerage.load import Load
from shared.brokerage.world import World
from shared.cache import Cache
from shared.db.database import Database
from shared.events import GridChanged, StatisticsChanged
from shared.model.grid import Grid
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from shared.snapshot.expected import ExpectedJobs
from shared.snapshot.reader import GridReader

CHECK_EVERY_S = 10.0
# Activity of idle queues change without news: everything is read again after so long.
READ_ALL_EVERY_S = 60.0


class Snapshot:
    """`world` is immutable: a decision takes it once and keeps it.

    A grid change builds the columns again; a change of statistics replaces the numbers of the queues that changed; lost
    news costs ten seconds. Jobs that were decided upon are counted as defined until the statistics have them.
    `on_changed` is called with the queues whose statistics changed (None: any).
    """

    def __init__(self, database: Database, cache: Cache) -> None:
        self._database = database
        self._reader = GridReader(cache)
        self._statistics_version = 0
        self._read_all_at: datetime | None = None
        self._expected = ExpectedJobs()
        self._changing = asyncio.Lock()
        self.on_changed: list[Callable[[Iterable[str] | None], None]] = []
        self._counted = World.of(Grid({}, {}, {}, resource_types=DEFAULT_RESOURCE_TYPES))
        self.world = self._counted

    async def check(self) -> None:
        """Read what changed, at first everything; with an empty grid nothing can run."""
        async with self._database.read() as connection:
            await self.refresh(connection)

    async def refresh(self, connection: asyncpg.Connection) -> bool:
        """Bring the world up to what the database has; whether anything had changed."""
        async with self._changing:
            grid_version, statistics_version, now = await self._reader.versions(connection)
            settled = await self._settled(connection, now)
            grid_changed = grid_version != self._counted.version
            is_old = self._read_all_at is None or (now - self._read_all_at).total_seconds() >= READ_ALL_EVERY_S
            if not grid_changed and not is_old and statistics_version == self._statistics_version:
                return self._forget_expected(settled)
            changed = await self._reader.changed_since(connection, self._statistics_version)
            if grid_changed:
                grid = await self._reader.linked(connection, await self._reader.grid(connection), grid_version)
                await self._read_all(connection, World.of(grid, version=grid_version))
            elif is_old:
                await self._read_all(connection, self._counted)
            else:
                await self._read_some(connection, changed)
            if grid_changed or is_old:
                self._read_all_at = now
            self._statistics_version = statistics_version
            self._forget_expected(settled)  # only now: what counts them has been read
            self._tell(changed)
            return True

    async def read_again(self, connection: asyncpg.Connection) -> None:
        """Read everything, whatever the versions say: the world is then exactly what the database has."""
        self._read_all_at = None
        self._expected.clear()
        await self.refresh(connection)
        self._tell(None)

    async def _settled(self, connection: asyncpg.Connection, now: datetime) -> list[int]:
        """Chunks whose jobs are expected although the database has counted them, or will never: their news was lost."""
        chunk_ids = self._expected.chunk_ids()
        return await self._reader.settled_chunks(connection, chunk_ids, now) if chunk_ids else []

    def _forget_expected(self, settled: Iterable[int]) -> bool:
        """Expect these chunks no longer, nor those that are too old; whether there was any."""
        any_settled = self._expected.counted(settled)
        any_old = self._expected.forget_old(self._database.monotonic())
        if any_settled or any_old:
            self._show(self._counted)
        return any_settled or any_old

    def assign(self, chunk_id: int, jobs: Mapping[str, int], *, vo: str = "") -> None:
        """Count jobs of a chunk, by `QUEUE/TYPE`, that were just decided upon: the next decision sees them."""
        self._expected.expect(chunk_id, jobs, self._database.monotonic(), vo=vo)
        self._show(self._counted)

    def withdraw(self, *chunk_ids: int) -> None:
        """Forget what was expected of chunks: their jobs are counted, or they are decided upon again."""
        if self._expected.counted(chunk_ids):
            self._show(self._counted)

    def expects(self, chunk_id: int) -> bool:
        """Whether jobs of a chunk are counted here although the statistics do not have them yet."""
        return self._expected.expects(chunk_id)

    async def on_grid_changed(self, event: GridChanged) -> None:
        """News: the columns are built again."""
        if event.grid_version != self._counted.version:
            await self.check()

    async def on_statistics_changed(self, event: StatisticsChanged) -> None:
        """News: only the queues that it names are read, from Redis if it has them."""
        async with self._database.read() as connection, self._changing:
            await self._read_some(connection, event.queues)
            self.withdraw(*event.chunk_ids)
        self._tell(event.queues)

    async def _read_all(self, connection: asyncpg.Connection, world: World) -> None:
        """Nothing is shown before everything is read: columns and numbers always belong together."""
        counts, activities = await self._reader.statistics(connection)
        self._show(world.with_load(Load.of(world.columns, counts, activities)))

    async def _read_some(self, connection: asyncpg.Connection, queues: Iterable[str]) -> None:
        """Only these queues, from Redis if it has them."""
        world = self._counted
        known = [queue for queue in queues if queue in world.columns.rows_of_queue]
        if known:
            counts, activities = await self._reader.statistics(connection, known)
            self._show(world.with_load(world.load.updated(world.columns, counts, activities, queues=known)))

    def _show(self, counted: World) -> None:
        self._counted = counted
        rows_of_label = counted.columns.row_of_label
        expected = {
            (vo, rows_of_label[label]): n_jobs
            for (vo, label), n_jobs in self._expected.by_label().items()
            if label in rows_of_label
        }
        self.world = counted.with_load(counted.load.with_assigned(expected)) if expected else counted

    def _tell(self, queues: Iterable[str] | None) -> None:
        for heard in self.on_changed:
            heard(queues)
