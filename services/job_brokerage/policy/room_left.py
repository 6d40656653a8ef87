"""What is left of the room at queues while tasks are woken for it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime

from shared.brokerage.room import Held, room
from shared.brokerage.world import World
from shared.waits.index import Waiting


class RoomLeft:
    """The room of each row and VO, computed once, and what woken tasks take of it, in jobs.

    `taken` is also that of caps, by their owners.
    """

    def __init__(self, world: World, now: datetime) -> None:
        self.taken = Counter[str]()
        self._world, self._now = world, now
        self._rooms: dict[tuple[str, Held], float] = {}
        self._full: set[tuple[int, str]] = set()

    def at(self, label: str, held: Held) -> float:
        """Jobs that may be placed at a row, whatever is taken of it."""
        key = (label, held)
        found = self._rooms.get(key)
        if found is None:
            row = self._world.columns.row_of_label.get(label)
            found = self._rooms[key] = 0.0 if row is None else room(self._world, row, held, self._now)
        return found

    def take(self, one: Waiting, label: str) -> None:
        """Let the jobs of a woken task take room, at its row first, then at the others that held it.

        A chunk is spread over all its queues: who is woken for what is left elsewhere would find it taken.

        Example: 250 jobs, rows with room for 40, 40 and 300: the first two are full, the third has 130 left.
        """
        left, causes = one.n_jobs, (id(one.causes), one.vo)
        is_full = causes in self._full
        for is_own in (True, False):
            for held, names in () if is_full else one.causes.queues:
                for name in names:
                    if (name == label) is is_own:
                        left -= self._take_at(name, held, one.vo, left)
                    if left == 0:
                        return
        self._full.add(causes)
        self.taken[room_of(label, one.vo)] += left

    def _take_at(self, label: str, held: Held, vo: str, n_jobs: int) -> int:
        where = room_of(label, vo)
        found = max(0, min(n_jobs, math.ceil(self.at(label, held)) - self.taken[where]))
        self.taken[where] += found
        return found


def room_of(label: str, vo: str) -> str:
    """The room of a VO at a row: its jobs alone take of it."""
    return f"{label} {vo}"
