"""Holds the current world of one process and replaces it when something changed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import asyncpg

from shared.brokerage.load import Load
from shared.brokerage.world import World
from shared.cache import Cache
from shared.db.database import Database
from shared.events import GridChanged, StatisticsChanged
from shared.model.grid import Grid
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES
from shared.snapshot.reader import GridReader

log = logging.getLogger(__name__)

CHECK_EVERY_S = 10.0
# Signs of life of idle queues change without news: everything is read again after so long.
READ_ALL_EVERY_S = 60.0


class Snapshot:
    """`world` is immutable: a decision takes it once and keeps it. A grid change builds the columns again; a change of

    statistics replaces the numbers of the queues that changed; lost news costs ten seconds. Jobs that were decided upon
    but are not yet in the statistics are counted as defined until the statistics of their queue come again.
    """

    def __init__(self, database: Database, cache: Cache) -> None:
        self._database = database
        self._reader = GridReader(cache)
        self._statistics_version = 0
        self._read_all_at: datetime | None = None
        self._counted: Load | None = None
        self._assigned: dict[int, dict[int, int]] = {}
        self._changing = asyncio.Lock()
        self.world = World.of(Grid({}, {}, {}, resource_types=DEFAULT_RESOURCE_TYPES))

    async def start(self) -> None:
        """Read everything; an empty grid is a valid world in which nothing can run."""
        async with self._database.read() as connection:
            await self.refresh(connection)

    async def check(self) -> None:
        """Compare versions; the safety net behind the news."""
        async with self._database.read() as connection:
            await self.refresh(connection)

    async def check_forever(self) -> None:
        """Background loop of a service."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                await self.check()
            except (asyncpg.PostgresError, OSError, asyncpg.InterfaceError) as error:
                log.warning("the world could not be refreshed, the last one stays: %s", error)

    async def refresh(self, connection: asyncpg.Connection) -> bool:
        """Bring the world up to what the database has; whether anything had changed."""
        async with self._changing:
            grid_version, statistics_version, now = await self._reader.versions(connection)
            grid_changed = grid_version != self.world.version
            is_old = self._read_all_at is None or (now - self._read_all_at).total_seconds() >= READ_ALL_EVERY_S
            if not grid_changed and not is_old and statistics_version == self._statistics_version:
                return False
            if grid_changed:
                self.world = World.of(await self._reader.grid(connection, grid_version), version=grid_version)
            if grid_changed or is_old:
                await self._read_all(connection, now)
            else:
                changed = await self._reader.changed_since(connection, self._statistics_version)
                await self._read_some(connection, changed)
            self._statistics_version = statistics_version
            return True

    async def read_again(self, connection: asyncpg.Connection) -> None:
        """Read everything, whatever the versions say: the world is then what the database has, and nothing else."""
        self._read_all_at = None
        await self.refresh(connection)

    def assign(self, chunk_id: int, jobs: Mapping[str, int]) -> None:
        """Count jobs of a chunk, by `QUEUE/TYPE`, that were just decided upon: the next decision sees them."""
        labels = self.world.columns.labels
        place = {label: row for row, label in enumerate(labels) if label in jobs}
        self._assigned[chunk_id] = {place[label]: n_jobs for label, n_jobs in jobs.items() if label in place and n_jobs}
        self._show(self.world.load if self._counted is None else self._counted)

    def withdraw(self, chunk_id: int) -> None:
        """Forget what was counted for a chunk: it is decided upon again."""
        if self._assigned.pop(chunk_id, None) and self._counted is not None:
            self._show(self._counted)

    async def _read_all(self, connection: asyncpg.Connection, now: datetime) -> None:
        counts, activities = await self._reader.statistics(connection)
        self._assigned, self._read_all_at = {}, now
        self._show(Load.of(self.world.columns, counts, activities))

    async def _read_some(self, connection: asyncpg.Connection, queues: Iterable[str]) -> None:
        """Only these queues, from Redis if it has them."""
        rows_of = self.world.columns.rows_of_queue
        known = [queue for queue in queues if queue in rows_of]
        if not known:
            return
        counts, activities = await self._reader.statistics(connection, known)
        again = {int(row) for queue in known for row in rows_of[queue]}
        left = {
            chunk_id: {row: n_jobs for row, n_jobs in jobs.items() if row not in again}
            for chunk_id, jobs in self._assigned.items()
        }
        self._assigned = {chunk_id: jobs for chunk_id, jobs in left.items() if jobs}
        load = self.world.load if self._counted is None else self._counted
        self._show(load.updated(self.world.columns, counts, activities, queues=known))

    def _show(self, counted: Load) -> None:
        self._counted = counted
        expected = Counter[int]()
        for jobs in self._assigned.values():
            expected.update(jobs)
        self.world = self.world.with_load(counted.with_assigned(expected) if expected else counted)

    async def on_grid_changed(self, event: GridChanged) -> None:
        """News: the columns are built again."""
        if event.grid_version != self.world.version:
            await self.check()

    async def on_statistics_changed(self, event: StatisticsChanged) -> None:
        """News: only the queues that it names are read, from Redis if it has them."""
        async with self._database.read() as connection, self._changing:
            await self._read_some(connection, event.queues)
