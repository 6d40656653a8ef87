"""The check that nothing sleeps: no work waits while a queue that would take it has room.

It is about time and takes the grid as brokerage sees it, so it is no query like the others.
"""

from __future__ import annotations

import asyncpg

from services.watchdog.checking.run import ROWS_PER_CHECK, Violation
from shared.brokerage.world import World
from shared.cache import NullCache
from shared.model.grid import Grid
from shared.snapshot.reader import GridReader
from shared.waits.patience import waiting_in_vain

INVARIANT, NAME = "I17", "i17_waits_although_a_queue_has_room"
MEANING = "no work, of whatever kind, waits for a queue that has had room for a minute"
TITLE = (
    "What waits for a queue, input, merges, job sets, jumbo jobs, builds or pre-processing, has a row that says what"
    " wakes it, and is woken when the queue has room."
)
A_MINUTE_S = 60.0


async def check_waiting(connection: asyncpg.Connection) -> list[Violation]:
    """Find work that has waited for a minute for a queue that has had room for as long."""
    now = await connection.fetchval("SELECT orrery_now()")
    reader, nothing = GridReader(NullCache()), World.of(Grid({}, {}, {}))
    _, found, _ = await waiting_in_vain(connection, reader, nothing, now, for_s=A_MINUTE_S)
    return [
        Violation(
            INVARIANT, NAME, one.key.task_id, "task", one.key.task_id, f"{one} for a minute" if one.label else str(one)
        )
        for one in found[:ROWS_PER_CHECK]
    ]
