"""Reads the grid and its statistics: from PostgreSQL, and through Redis where that is cheaper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import asyncpg

from shared.brokerage.load import Activity, JobCount
from shared.cache import Cache, Stamped
from shared.db.queries import Queries
from shared.model.grid import Grid
from shared.model.link import Link, links_of
from shared.model.problems import Problem
from shared.model.queue import queue_from_cric
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES, ResourceType
from shared.model.site import site_from_cric
from shared.model.software import software_from_map
from shared.model.storage import storage_from_cric
from shared.web.slices import in_slices

SQL = Queries.beside(__file__)

log = logging.getLogger(__name__)

T = TypeVar("T")
#: records of the grid that are read without a turn for others
RECORDS_AT_ONCE = 50
NETWORK_METRICS_KEY = "network_metrics"
# A cached statistic older than this is read from PostgreSQL again: whoever should refresh it may be gone.
STATISTICS_LIFETIME_S = 60.0
# Statistics that were folded are published, and published again, within this time.
PUBLISHED_WITHIN_S = 2.0
# The event of new jobs is folded within this time, unless it was lost.
COUNTED_WITHIN_S = 30.0

Statistics = tuple[list[JobCount], list[Activity]]


def statistics_key(queue: str) -> str:
    """Where the statistics of a queue are cached."""
    return f"queue_statistics:{queue}"


async def _records(
    connection: asyncpg.Connection, table: str, key: str, parse: Callable[[str, Any, str], T | list[Problem]]
) -> dict[str, T]:
    """Stored records as values, by name.

    They were valid when they were loaded: one that is not any more (damaged, or of an older version) is left out and
    told, and the others are worked with. A large grid does not hold the event loop: others get their turn after every
    few records.
    """
    found = {}
    for number, row in enumerate(await SQL.rows(connection, table)):
        if number % RECORDS_AT_ONCE == 0:
            await asyncio.sleep(0)
        parsed = parse(row[key], row["data"], table)
        if isinstance(parsed, list):
            log.error("left out: %s", "; ".join(str(problem) for problem in parsed))
        else:
            found[row[key]] = parsed
    return found


class GridReader:
    """Stateless; every method takes the connection, so that a handler may read within its own transaction."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def versions(self, connection: asyncpg.Connection) -> tuple[int, int, datetime]:
        """Versions of the grid and of the statistics (0 where nothing was stored yet), and the time."""
        grid, statistics, now = await SQL.one(connection, "versions")
        return grid, statistics, now

    async def grid(self, connection: asyncpg.Connection) -> Grid:
        """The grid without its links, which few need."""
        types = await SQL.rows(connection, "resource_types")
        steps = Grid.of_in_steps(
            await _records(connection, "queues", "queue", queue_from_cric),
            await _records(connection, "sites", "site", site_from_cric),
            await _records(connection, "storages", "storage", storage_from_cric),
            software=await _records(connection, "software_map", "queue", software_from_map),
            resource_types=tuple(ResourceType(*row) for row in types) or DEFAULT_RESOURCE_TYPES,
        )
        return await in_slices(steps)

    async def linked(self, connection: asyncpg.Connection, grid: Grid, version: int) -> Grid:
        """The grid of a version (which the caller has just read) with its links."""
        return replace(grid, links=await self.links(connection, version))

    async def links(self, connection: asyncpg.Connection, version: int) -> dict[tuple[str, str], Link]:
        """All links; cached under the grid's version, because a full dump has tens of thousands of numbers."""
        stamped = await self._cache.get(NETWORK_METRICS_KEY)
        if stamped is not None and stamped.version == version:
            return links_of((*row[:4], datetime.fromisoformat(row[4])) for row in stamped.value)
        rows = [tuple(row) for row in await SQL.rows(connection, "network_metrics")]
        await self._cache.put(NETWORK_METRICS_KEY, [[*row[:4], row[4].isoformat()] for row in rows], version)
        return links_of(rows)

    async def changed_since(self, connection: asyncpg.Connection, version: int) -> list[str]:
        """Queues whose statistics were published after a version."""
        return [row["queue"] for row in await SQL.rows(connection, "changed_since", version=version)]

    async def settled_chunks(
        self, connection: asyncpg.Connection, chunk_ids: Sequence[int], now: datetime
    ) -> list[int]:
        """Chunks whose jobs have been in the published statistics for a while, or are not waiting."""
        found = await SQL.rows(
            connection,
            "settled_chunks",
            chunk_ids=list(chunk_ids),
            counted_before=now - timedelta(seconds=PUBLISHED_WITHIN_S),
            made_before=now - timedelta(seconds=COUNTED_WITHIN_S),
        )
        return [row["chunk_id"] for row in found]

    async def statistics(self, connection: asyncpg.Connection, queues: Sequence[str] | None = None) -> Statistics:
        """Jobs and activity of some queues, from Redis where it has them fresh; of all queues from PostgreSQL."""
        counts, activities = list[JobCount](), list[Activity]()
        if queues is not None:
            cached = await self._cache.get_many([statistics_key(queue) for queue in queues])
            fresh = {
                queue: cached[statistics_key(queue)] for queue in queues if _is_fresh(cached.get(statistics_key(queue)))
            }
            for queue, stamped in fresh.items():
                counts += [JobCount(queue, *row) for row in stamped.value["jobs"]]
                activities += [activity_from_json(queue, stamped.value["activity"])]
            queues = [queue for queue in queues if queue not in fresh]
            if not queues:
                return counts, activities
        wanted = None if queues is None else list(queues)
        counts += [JobCount(*row) for row in await SQL.rows(connection, "job_counts", queues=wanted)]
        activities += [Activity(*row) for row in await SQL.rows(connection, "activities", queues=wanted)]
        return counts, activities


def _is_fresh(stamped: Stamped | None) -> bool:
    return stamped is not None and stamped.age_s <= STATISTICS_LIFETIME_S


def activity_to_json(activity: Activity) -> dict[str, Any]:
    """The cached form of a queue's activity."""
    return {
        "last_pilot_at": activity.last_pilot_at.isoformat() if activity.last_pilot_at else None,
        "last_job_start_at": activity.last_job_start_at.isoformat() if activity.last_job_start_at else None,
        "known_since": activity.known_since.isoformat() if activity.known_since else None,
        "mean_disk_io_kb_s_per_core": activity.mean_disk_io_kb_s_per_core,
        "running_workers": activity.running_workers,
        "submitted_workers": activity.submitted_workers,
        "n_slots": activity.n_slots,
        "slots_of_type": dict(activity.slots_of_type),
    }


def activity_from_json(queue: str, stored: Mapping[str, Any]) -> Activity:
    """The inverse."""
    return Activity(
        queue,
        datetime.fromisoformat(stored["last_pilot_at"]) if stored["last_pilot_at"] else None,
        datetime.fromisoformat(stored["last_job_start_at"]) if stored["last_job_start_at"] else None,
        stored["running_workers"],
        stored["submitted_workers"],
        stored["n_slots"],
        stored["mean_disk_io_kb_s_per_core"],
        datetime.fromisoformat(stored["known_since"]) if stored["known_since"] else None,
        stored["slots_of_type"],
    )
