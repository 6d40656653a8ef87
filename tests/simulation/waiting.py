"""Invariant I15: no task waits while a queue that would take it has had room for a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg

from shared.brokerage.load import Load
from shared.brokerage.room import room
from shared.brokerage.world import World
from shared.cache import NullCache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader
from shared.waits.causes import Causes

#: so long a queue may have room before somebody is at fault
A_MINUTE = timedelta(seconds=60)
#: while messages are lost or hours late, jobs that were decided upon may be expected for so long and never come
EXPECTED_IN_VAIN = timedelta(seconds=400)
#: rounds of all periodic work, so that statistics are published, heard and looked at in this order, in any of them
ROUNDS = 4

_WAITING = """
SELECT w.task_id, w.wake_nr, w.causes FROM waits w JOIN tasks t USING (task_id)
 WHERE w.kind = 'queue' AND w.woken_at IS NULL AND (w.not_before IS NULL OR w.not_before <= orrery_now())
   AND w.retry_at > orrery_now() AND t.retry_at > orrery_now()
   AND t.status IN ('pending', 'ready', 'scouting', 'running')
 ORDER BY w.task_id
"""
_SET_NOW = "SELECT set_config('orrery.now', $1, false)"


class Patience:
    """Reads the rows and the statistics themselves, not what a service has in memory. `suspects`: tasks for which there

    is room, with since when and in how many rounds.
    """

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._reader = GridReader(NullCache())
        self._world = World.of(Grid({}, {}, {}))
        self.suspects: dict[tuple[int, int], tuple[datetime, int]] = {}
        self.n_waited = 0
        self._faulty_at, self._rounds_without_faults = datetime.min.replace(tzinfo=UTC), 0

    async def look(self, now: datetime, *, faulty: bool) -> list[str]:
        """When nothing else is to do: who waits for nothing, in words. Without faults the minute begins after them."""
        self._rounds_without_faults = 0 if faulty else self._rounds_without_faults + 1
        if faulty:
            self._faulty_at = now
        await self._connection.execute(_SET_NOW, now.isoformat())
        rows = await self._connection.fetch(_WAITING)
        self.n_waited += len(rows)
        if not rows:
            self.suspects.clear()
            return []
        world = await self._read()
        found = {}
        for row in rows:
            label = self._label_with_room(world, Causes.of(row["causes"]), now)
            if label is not None:
                found[row["task_id"], row["wake_nr"]] = label
        self.suspects = {
            key: (since, rounds + 1) for key in found for since, rounds in [self.suspects.get(key, (now, -1))]
        }
        return [
            f"I15: task {key[0]} waits although {found[key]} has had room since {since:%H:%M:%S}"
            for key, (since, rounds) in self.suspects.items()
            if rounds >= ROUNDS and self._is_over(since, now, faulty=faulty)
        ]

    def _is_over(self, since: datetime, now: datetime, *, faulty: bool) -> bool:
        if faulty:
            return now - since > EXPECTED_IN_VAIN
        return self._rounds_without_faults >= ROUNDS and now - max(since, self._faulty_at) > A_MINUTE

    async def _read(self) -> World:
        version, _, _ = await self._reader.versions(self._connection)
        if version != self._world.version:
            grid = await self._reader.linked(self._connection, await self._reader.grid(self._connection), version)
            self._world = World.of(grid, version=version)
        counts, activities = await self._reader.statistics(self._connection)
        return self._world.with_load(Load.of(self._world.columns, counts, activities))

    @staticmethod
    def _label_with_room(world: World, causes: Causes, now: datetime) -> str | None:
        rows = world.columns.row_of_label
        for held, labels in causes.queues:
            for label in labels:
                if label in rows and room(world, rows[label], held, now) > 0:
                    return label
        return None
