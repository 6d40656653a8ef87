"""Reads the grid and its statistics: from PostgreSQL, and through Redis where that is cheaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import aiosql
import asyncpg

from shared.brokerage.load import Activity, JobCount
from shared.cache import Cache, Stamped
from shared.model.grid import Grid
from shared.model.link import Link, links_of
from shared.model.problems import InvalidGrid, Problem
from shared.model.queue import queue_from_cric
from shared.model.resource_types import ResourceType
from shared.model.site import site_from_cric
from shared.model.software import QueueSoftware, software_from_map
from shared.model.storage import storage_from_cric

queries = aiosql.from_path(Path(__file__).with_name("queries.sql"), "asyncpg")

NETWORK_METRICS_KEY = "network_metrics"
# A cached statistic older than this is read from PostgreSQL again: whoever should refresh it may be gone.
STATISTICS_LIFETIME_S = 60.0

Statistics = tuple[list[JobCount], list[Activity]]


def statistics_key(queue: str) -> str:
    """Where the statistics of a queue are cached."""
    return f"queue_statistics:{queue}"


def _records(rows: Sequence[Mapping[str, Any]], key: str, parse: Any) -> dict[str, Any]:
    """Stored records as values. They were valid when they were loaded: anything else is a damaged table."""
    found, problems = {}, list[Problem]()
    for row in rows:
        parsed = parse(row[key], row["data"])
        if isinstance(parsed, list):
            problems.extend(parsed)
        else:
            found[row[key]] = parsed
    if problems:
        raise InvalidGrid(problems)
    return found


async def published_software(connection: asyncpg.Connection) -> dict[str, QueueSoftware]:
    """What queues publish about their software, by name. Raises InvalidGrid."""
    return _records([row async for row in queries.software_map(connection)], "queue", software_from_map)


class GridReader:
    """Stateless; every method takes the connection, so that a handler may read within its own transaction."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def versions(self, connection: asyncpg.Connection) -> tuple[int, int, datetime]:
        """Versions of the grid and of the statistics (0 where nothing was stored yet), and the time."""
        grid, statistics, now = await queries.versions(connection)
        return grid, statistics, now

    async def grid(self, connection: asyncpg.Connection, version: int) -> Grid:
        """The grid of a version (which the caller has just read)."""
        types = [row async for row in queries.resource_types(connection)]
        return Grid(
            queues=_records([row async for row in queries.queues(connection)], "queue", queue_from_cric),
            sites=_records([row async for row in queries.sites(connection)], "site", site_from_cric),
            storages=_records([row async for row in queries.storages(connection)], "storage", storage_from_cric),
            links=await self.links(connection, version),
            software=await published_software(connection),
            resource_types=tuple(ResourceType(*row) for row in types),
        )

    async def links(self, connection: asyncpg.Connection, version: int) -> dict[tuple[str, str], Link]:
        """All links; cached under the grid's version, because a full dump has tens of thousands of numbers."""
        stamped = await self._cache.get(NETWORK_METRICS_KEY)
        if stamped is not None and stamped.version == version:
            return links_of((*row[:4], datetime.fromisoformat(row[4])) for row in stamped.value)
        rows = [tuple(row) async for row in queries.network_metrics(connection)]
        await self._cache.put(NETWORK_METRICS_KEY, [[*row[:4], row[4].isoformat()] for row in rows], version)
        return links_of(rows)

    async def changed_since(self, connection: asyncpg.Connection, version: int) -> list[str]:
        """Queues whose statistics were published after a version."""
        return [row["queue"] async for row in queries.changed_since(connection, version=version)]

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
        counts += [JobCount(*row) async for row in queries.job_counts(connection, queues=wanted)]
        activities += [Activity(*row) async for row in queries.activities(connection, queues=wanted)]
        return counts, activities


def _is_fresh(stamped: Stamped | None) -> bool:
    return stamped is not None and stamped.age_s <= STATISTICS_LIFETIME_S


def activity_to_json(activity: Activity) -> dict[str, Any]:
    """The cached form of a queue's signs of life."""
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
        # A replica of an older version may have written it.
        stored.get("slots_of_type", {}),
    )
