"""Invariant I17: no part of a task, of any kind, waits while a queue that would take it has had room for a minute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg

from shared.brokerage.world import World
from shared.cache import NullCache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader
from shared.waits.patience import InVain, waiting_in_vain
from shared.waits.store import Part

#: so long a queue may have room before somebody is at fault
A_MINUTE = timedelta(seconds=60)
#: so long anybody may wait beside room, whoever is ahead
LONGEST = timedelta(seconds=600)
#: while messages are lost or hours late, jobs that were decided upon may be expected for so long and never come
EXPECTED_IN_VAIN = timedelta(seconds=400)
#: rounds of all periodic work, so that statistics are published, heard and looked at in this order, in any of them
ROUNDS = 4

_SET_NOW = "SELECT set_config('orrery.now', $1, false)"
#: when somebody of the same VO who is ahead of these in turn, in the same share by priority, age and number, last got
#: room of this queue: who saw room before and after, at two looks, has had none in between
_GIVEN = """
SELECT m.task_id, m.work, m.part, max(greatest(a.woken_at, a.placed_at)) AS at
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS s (task_id, work, part, label)
  JOIN waits m ON (m.task_id, m.work, m.part) = (s.task_id, s.work, s.part) AND m.kind = 'queue'
  JOIN tasks mine ON mine.task_id = m.task_id
  JOIN waits a ON a.woken_for = s.label AND a.kind = 'queue' AND a.woken_at IS NOT NULL
  JOIN tasks other ON other.task_id = a.task_id
 WHERE other.vo = mine.vo
   AND (other.gshare <> mine.gshare
        OR (-other.current_priority, a.since, a.task_id, a.work, a.part)
           < (-mine.current_priority, m.since, m.task_id, m.work, m.part))
 GROUP BY m.task_id, m.work, m.part
"""


class Patience:
    """Reads the rows and the statistics themselves, not what a service has in memory.

    `suspects`: parts of tasks for which there is room, with since when and in how many rounds; both begin anew when
    others who are ahead in turn got the room. `first`: since when they have been seen beside room, however
    often they were woken in vain.
    """

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._reader = GridReader(NullCache())
        self._world = World.of(Grid({}, {}, {}))
        self.suspects: dict[tuple[Part, int], tuple[datetime, int]] = {}
        self.first: dict[Part, datetime] = {}
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
            self.first.clear()
            return []
        found = {(one.key, one.wake_nr): one for one in in_vain}
        given = await self._given([one for one in in_vain if one.label])
        before, self.suspects = self.suspects, {}
        for key in found:
            since, rounds = before.get(key, (now, -1))
            is_new = given.get(key[0], since) > since
            self.suspects[key] = (now, 0) if is_new else (since, rounds + 1)
        self.first = {part: self.first.get(part, now) for part, _ in found}
        return [
            f"I17: {found[key]} since {since:%H:%M:%S}, first seen {self.first[key[0]]:%H:%M:%S}"
            for key, (since, rounds) in self.suspects.items()
            if self._is_over(since, rounds, self.first[key[0]], now, faulty=faulty)
        ]

    async def _given(self, in_vain: Sequence[InVain]) -> dict[Part, datetime]:
        """When others who are ahead of these last got room that these wait for."""
        task_ids, works, parts = ([one.key[place] for one in in_vain] for place in range(3))
        rows = await self._connection.fetch(_GIVEN, task_ids, works, parts, [one.label for one in in_vain])
        return {Part(row["task_id"], row["work"], row["part"]): row["at"] for row in rows}

    def _is_over(self, since: datetime, rounds: int, first: datetime, now: datetime, *, faulty: bool) -> bool:
        if faulty:
            return rounds >= ROUNDS and now - since > EXPECTED_IN_VAIN
        if self._rounds_without_faults < ROUNDS:
            return False
        is_passed_by = now - max(first, self._faulty_at) > LONGEST
        return is_passed_by or (rounds >= ROUNDS and now - max(since, self._faulty_at) > A_MINUTE)
