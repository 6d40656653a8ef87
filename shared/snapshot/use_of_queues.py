"""How much of queues is used, and for how long analysis waits there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from shared.brokerage.classes import classify_sites
from shared.brokerage.usage import CLASSIFIED_SHARES, WAITS_KEPT, QueueUsage, ShareCounts, queue_usages
from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def use_of_queues(
    connection: asyncpg.Connection, queues: Sequence[str] | None, since: datetime
) -> dict[str, QueueUsage]:
    """Read the use of these queues, or of all, with starts and waits since that time."""
    counts = {
        (row["queue"], row["vo"], row["gshare"]): ShareCounts(*tuple(row)[3:])
        for row in await SQL.rows(connection, "counts_of_shares", queues=queues)
    }
    return queue_usages(counts, *await _past(connection, queues, since))


async def classes_of_queues(connection: asyncpg.Connection, now: datetime) -> dict[str, int]:
    """Read the class of each queue by the waits of analysis there: hi, mid, lo."""
    found = queue_usages({}, *await _past(connection, None, now - WAITS_KEPT))
    return classify_sites({queue: one.waits for queue, one in found.items()}, now)


async def _past(
    connection: asyncpg.Connection, queues: Sequence[str] | None, since: datetime
) -> tuple[
    list[tuple[str, str, datetime, int]], list[tuple[str, datetime, int, float, float]], list[tuple[str, datetime]]
]:
    """Read starts by hour, waits of merge jobs by hour, and since when others wait."""
    starts = [tuple(row) for row in await SQL.rows(connection, "starts", queues=queues, since=since)]
    gshares = sorted(CLASSIFIED_SHARES)
    waits = [tuple(row) for row in await SQL.rows(connection, "waits", queues=queues, gshares=gshares, since=since)]
    waiting = [tuple(row) for row in await SQL.rows(connection, "waiting_merge_jobs", queues=queues)]
    return starts, waits, waiting
