"""Who waits although a queue has room, by rows and statistics, not by what a service remembers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from shared.brokerage.load import Load
from shared.brokerage.room import room
from shared.brokerage.world import World
from shared.snapshot.reader import GridReader
from shared.waits.causes import Causes
from shared.waits.store import SQL, STATES, Part

#: they pass as soon as a pilot asks or a job starts, of which nobody knows when it was the first
_OF_PILOTS = frozenset({"pilots", "inactive"})


@dataclass(frozen=True)
class InVain:
    """What waits for a queue that has room now, or, without a `label`, for nothing.

    `wake_nr`: by which decision.
    """

    key: Part
    wake_nr: int
    label: str

    def __str__(self) -> str:
        what = " ".join(filter(None, self.key[1:])) or "its input"
        if not self.label:
            return f"task {self.key.task_id} waits with {what}, and nothing wakes it"
        return f"task {self.key.task_id} waits with {what} although {self.label} has had room"


async def waiting_in_vain(
    connection: asyncpg.Connection, reader: GridReader, world: World, now: datetime, *, for_s: float = 0.0
) -> tuple[World, list[InVain], int]:
    """Parts of tasks that wait for a queue that has room, or that nothing wakes.

    With the world, and how many wait at all.

    `for_s`: only those that have waited so long, at queues where no job has changed its state for so long.
    """
    rows = await SQL.rows(connection, "patient", statuses=list(STATES["queue"]), for_s=for_s)
    asleep = await SQL.rows(connection, "nobody_wakes", statuses=list(STATES["queue"]))
    found = [InVain(Part(*row), 0, "") for row in asleep]
    if not rows:
        return world, found, len(found)
    version, _, _ = await reader.versions(connection)
    if version != world.version:
        grid = await reader.linked(connection, await reader.grid(connection), version)
        world = World.of(grid, version=version)
    counts, activities = await reader.statistics(connection)
    world = world.with_load(Load.of(world.columns, counts, activities))
    busy = {row["queue"] for row in await SQL.rows(connection, "changed_queues", for_s=for_s)} if for_s else None
    for row in rows:
        label = _with_room(world, Causes.of(row["causes"]), now, busy)
        if label is not None:
            found.append(InVain(Part(row["task_id"], row["work"], row["part"]), row["wake_nr"], label))
    return world, found, len(rows) + len(asleep)


def _with_room(world: World, causes: Causes, now: datetime, busy: Set[str] | None) -> str | None:
    """A queue that has room, and has had it for the time where `busy` says which queues may not."""
    columns = world.columns
    for held, labels in causes.queues:
        if busy is not None and held.check in _OF_PILOTS:
            continue
        for label in labels:
            row = columns.row_of_label.get(label)
            if row is None or (busy is not None and columns.queues[row].name in busy):
                continue
            if room(world, row, held, now) > 0:
                return label
    return None
