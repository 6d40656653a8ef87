"""Small worlds for tests: a queue, a site, a storage in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from shared.brokerage.load import Activity, JobCount, Load
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World
from shared.model.grid import Grid
from shared.model.link import Link
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.model.site import Site
from shared.model.software import QueueSoftware
from shared.model.storage import Storage
from shared.task.needs import WorkNeeds

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIGHT = WorkNeeds(core_count=1, ram_mb=1000, cpu_time_hs06_s_per_event=10.0)


def a_queue(name: str, site: str = "SITE", **changes: Any) -> Queue:
    """An ordinary online queue of one core with room for everything."""
    values: dict[str, Any] = {
        "status": QueueStatus.ONLINE, "type": QueueType.UNIFIED, "core_power_hs06": 10.0, "max_time_s": 345_600,
        "max_rss_mb": 4000, "max_work_dir_mb": 20_000, "read_storages": (f"{site}_DATADISK",),
        "write_storages": (f"{site}_DATADISK",),
    }  # fmt: skip
    return Queue(name=name, site=site, **{**values, **changes})


def a_storage(name: str, site: str, **changes: Any) -> Storage:
    """A disk storage half of whose 100 TB are free."""
    values: dict[str, Any] = {
        "type": "DATADISK", "is_tape": False, "space_total_gb": 102_400.0, "space_free_gb": 51_200.0,
        "space_expired_gb": 0.0, "space_min_free_gb": 0.0, "space_unavailable_gb": 0.0,
    }  # fmt: skip
    return Storage(name=name, site=site, **{**values, **changes})


def a_world(
    queues: Iterable[Queue],
    *,
    storages: Iterable[Storage] = (),
    sites: Iterable[Site] = (),
    links: Iterable[Link] = (),
    jobs: Iterable[JobCount] = (),
    activities: Iterable[Activity] = (),
    software: Mapping[str, Mapping[str, Any]] | None = None,
) -> World:
    """A world; sites and storages that the queues name and nobody gave are made."""
    by_name = {queue.name: queue for queue in queues}
    all_sites = {name: Site(name, "ACTIVE") for name in sorted({queue.site for queue in by_name.values()})}
    all_sites |= {site.name: site for site in sites}
    made = {
        name: a_storage(name, queue.site)
        for queue in by_name.values()
        for name in (*queue.read_storages, *queue.write_storages)
    }
    grid = Grid(
        by_name,
        all_sites,
        made | {one.name: one for one in storages},
        {(one.source, one.destination): one for one in links},
        {name: QueueSoftware.model_validate(one) for name, one in (software or {}).items()},
    )
    world = World.of(grid, version=1)
    return world.with_load(Load.of(world.columns, jobs, activities))


def a_request(**changes: Any) -> JobRequest:
    """A production job that fits `a_queue`."""
    return JobRequest(**{"task_id": 1, "now": NOW, "needs": LIGHT, "resource_type": "SCORE", **changes})
