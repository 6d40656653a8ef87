"""What generation knows about queues: read once, read again when the grid's version changes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import asyncpg

from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.sql import QUERIES
from shared.brokerage.software import SoftwareNeeds, resolve_platform, software_of_task
from shared.events import Candidate
from shared.model.queue import Queue, queue_from_cric
from shared.model.resource_types import DEFAULT_RESOURCE_TYPES, QueuePart, ResourceType
from shared.model.software import QueueSoftware
from shared.snapshot import published_software

log = logging.getLogger(__name__)


class QueueBook:
    """Queues by name. `refresh` compares one row; the copy is replaced as a whole."""

    def __init__(self) -> None:
        self.version: int | None = None
        self._queues: dict[str, Queue] = {}
        self._types: dict[str, ResourceType] = {}
        self._software: dict[str, QueueSoftware] = {}

    async def refresh(self, connection: asyncpg.Connection) -> None:
        """Read everything again if the grid changed since."""
        version = await QUERIES.value(connection, "grid_version")
        if version == self.version:
            return
        queues: dict[str, Queue] = {}
        for row in await QUERIES.rows(connection, "queues_of_grid"):
            parsed = queue_from_cric(row["queue"], {"atlas_site": row["site"], **row["data"]})
            if isinstance(parsed, Queue):
                queues[row["queue"]] = parsed
            else:
                log.error("queue %s left out: %s", row["queue"], "; ".join(str(problem) for problem in parsed))
        software = await published_software(connection)
        types = [ResourceType(*row) for row in await QUERIES.rows(connection, "resource_types_of_grid")]
        self._queues, self._software = queues, software
        self._types = {one.name: one for one in types or DEFAULT_RESOURCE_TYPES}
        self.version = version

    def core_power_hs06(self, queue: str) -> float:
        """The queue's benchmark of one core; 10 where it states none."""
        known = self._queues.get(queue)
        return known.core_power_hs06 if known is not None and known.core_power_hs06 > 0 else 10.0

    def candidates(
        self, task: Task, candidates: Iterable[Candidate], queued: Mapping[tuple[str, str], int]
    ) -> list[QueueFacts]:
        """Facts about the ranked queues that (still) exist, best first."""
        found = []
        for candidate in candidates:
            queue = self._queues.get(candidate.queue)
            if queue is None:
                continue
            resource_type = candidate.resource_type or task.resource_type
            n_queued = queued.get((candidate.queue, resource_type), 0)
            found.append(self._facts(task, queue, resource_type, candidate, n_queued))
        return found

    def _facts(self, task: Task, queue: Queue, resource_type: str, candidate: Candidate, n_queued: int) -> QueueFacts:
        known = self._types.get(resource_type)
        # where the grid has no such part (any more), the whole slot
        part = queue.part_for(known, task.core_count) if known is not None or not queue.is_unified else None
        slot = part or QueuePart(max(0, queue.core_count), queue.min_rss_mb, queue.max_rss_mb)
        reads = queue.storages("read", task.is_analysis)
        writes = queue.storages("write", task.is_analysis)
        return QueueFacts(
            queue=queue.name,
            resource_type=resource_type,
            site=queue.site,
            core_count=slot.core_count,
            core_power_hs06=queue.core_power_hs06,
            max_time_s=queue.max_time_s,
            max_rss_mb=int(slot.max_rss_mb),
            max_work_dir_mb=queue.work_dir_of(slot),
            max_input_size_mb=max(0, queue.max_input_size_mb),
            reads_directly=queue.direct_access_lan or queue.max_input_size_mb == -1,
            read_storage=reads[0] if reads else "",
            write_storage=writes[0] if writes else (reads[0] if reads else ""),
            cloud=queue.cloud,
            weight=candidate.weight,
            max_jobs=candidate.max_jobs,
            n_queued=n_queued,
            platform=platform_at(self._software.get(queue.name), _software_of(task)),
        )


def _software_of(task: Task) -> SoftwareNeeds:
    named = {"architecture": task.architecture, "trans_home": task.trans_home, "trans_uses": task.trans_uses}
    return software_of_task({**named, "container_name": task.container_name})


def platform_at(published: QueueSoftware | None, needs: SoftwareNeeds) -> str:
    """The platform that jobs at a queue are told: a regular expression becomes one of the platforms it publishes.

    A queue that publishes none takes the expression as it is, if it lists the release or takes everything.
    Source: PanDA brokerage, Checks for CPU and/or GPU Hardware.
    """
    return resolve_platform(published, needs) or needs.architecture.platforms
