"""Invariant I17: no part of a task, of any kind, waits while a queue that would take it has had room for a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import asyncpg

from shared.brokerage.world import World
from shared.cache import NullCache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader
from shared.waits.patience import waiting_in_vain
from shared.waits.store import Part

#: so long a queue may have room before somebody is at fault
A_MINUTE = timedelta(seconds=60)
#: while messages are lost or hours late, jobs that were decided upon may be expected for so long and never come
EXPECTED_IN_VAIN = timedelta(seconds=400)
#: rounds of all periodic work, so that statistics are published, heard and looked at in this order, in any of them
ROUNDS = 4

_SET_NOW = "SELECT set_config('orrery.now', $1, false)"
#: when somebody whose turn it was last got room: who saw it before and after, at two looks, has had none in between
_GIVEN = """
SELECT woken_for AS label, max(greatest(woken_at, placed_at)) AS at FROM waits WHERE woken_at IS NOT NULL GROUP BY 1
"""


class Patience:
    """Reads the rows and the statistics themselves, not what a service has in memory.

    `suspects`: parts of tasks for which there is room, with since when and in how many rounds.
    """

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._reader = GridReader(NullCache())
        self._world = World.of(Grid({}, {}, {}))
        self.suspects: dict[tuple[Part, int], tuple[datetime, int]] = {}
        self.n_waited = 0
        self._faulty_at, self._rounds_without_faults = datetime.min.replace(tzinfo=UTC), 0

    async def look(self, now: datetime, *, faulty: bool) -> list[str]:
        """When nothing else is to do: who waits for nothing, in words. Without faults the minute begins after them."""
        self._rounds_without_faults = 0 if faulty else self._rounds_without_faults + 1
        if faulty:
            self._faulty_at = now
        await self._connection.execute(_SET_NOW, now.isoformat())
        self._world, in_vain, n_waiting = await waiting_in_vain(self._connection, self._reader, self._world, now)
        self.n_waited += n_waiting
        if not n_waiting:
            self.suspects.clear()
            return []
        found = {(one.key, one.wake_nr): one for one in in_vain}
        given = {row["label"]: row["at"] for row in await self._connection.fetch(_GIVEN)}
        before, self.suspects = self.suspects, {}
        for key, one in found.items():
            since, rounds = before.get(key, (now, -1))
            is_new = given.get(one.label, since) > since
            self.suspects[key] = (now, 0) if is_new else (since, rounds + 1)
        return [
            f"I17: {found[key]} since {since:%H:%M:%S}"
            for key, (since, rounds) in self.suspects.items()
            if rounds >= ROUNDS and self._is_over(since, now, faulty=faulty)
        ]

    def _is_over(self, since: datetime, now: datetime, *, faulty: bool) -> bool:
        if faulty:
            return now - since > EXPECTED_IN_VAIN
        return self._rounds_without_faults >= ROUNDS and now - max(since, self._faulty_at) > A_MINUTE
