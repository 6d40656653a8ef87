"""What generation asks about queues, taken from the grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from services.job_generation.policy.values import QueueFacts, Task
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.brokerage.output_places import write_storages
from shared.brokerage.software import Lack, SoftwareNeeds, lack_of, resolve_platform, software_of_task
from shared.events import QueueChoice
from shared.model.grid import Grid
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.model.resource_types import QueuePart
from shared.model.software import QueueSoftware


def core_power_hs06(grid: Grid, queue: str) -> float:
    """The queue's benchmark of one core."""
    known = grid.queues.get(queue)
    return known.core_power_hs06 if known is not None and known.core_power_hs06 > 0 else DEFAULT_CORE_POWER_HS06


def facts_of_candidates(
    grid: Grid, task: Task, candidates: Iterable[QueueChoice], queued: Mapping[tuple[str, str], int]
) -> list[QueueFacts]:
    """Facts about the ranked queues that (still) exist, best first."""
    found = []
    for candidate in candidates:
        queue = grid.queues.get(candidate.queue)
        if queue is None:
            continue
        resource_type = candidate.resource_type or task.resource_type
        n_queued = queued.get((candidate.queue, resource_type), 0)
        found.append(_facts(grid, task, queue, resource_type, candidate, n_queued))
    return found


def queues_naming(grid: Grid, task: Task, store_id: int) -> list[str]:
    """Online queues without jumbo jobs that take the task, have its software and name this store."""
    takes = (QueueType.UNIFIED, QueueType.ANALYSIS if task.is_analysis else QueueType.PRODUCTION)
    return sorted(
        one.name
        for one in grid.queues.values()
        if str(store_id) in one.object_stores
        and one.type in takes
        and one.status == QueueStatus.ONLINE
        and not one.runs_jumbo_jobs
        and lack_of(one, grid.software, _software_of(task)) == Lack.NOTHING
    )


def _facts(
    grid: Grid, task: Task, queue: Queue, resource_type: str, candidate: QueueChoice, n_queued: int
) -> QueueFacts:
    known = next((one for one in grid.resource_types if one.name == resource_type), None)
    # where the grid has no such part (any more), the whole slot
    part = queue.part_for(known, task.core_count) if known is not None or not queue.is_unified else None
    slot = part or QueuePart(max(0, queue.core_count), queue.min_rss_mb, queue.max_rss_mb)
    return QueueFacts(
        queue=queue.name,
        resource_type=resource_type,
        site=queue.site,
        core_count=slot.core_count,
        core_power_hs06=queue.core_power_hs06,
        max_time_s=queue.max_time_s,
        min_time_s=queue.min_time_s,
        max_rss_mb=int(slot.max_rss_mb),
        max_work_dir_mb=queue.work_dir_of(slot),
        max_input_size_mb=max(0, queue.max_input_size_mb),
        reads_directly=queue.direct_access_lan or queue.max_input_size_mb == -1,
        read_storage=next(iter(queue.storages("read", analysis=task.is_analysis)), ""),
        write_storages=write_storages(grid, queue, analysis=task.is_analysis),
        cloud=queue.cloud,
        weight=candidate.weight,
        max_jobs=candidate.max_jobs,
        n_queued=n_queued,
        platform=platform_at(grid.software.get(queue.name), _software_of(task)),
        is_virtual_placement=queue.is_virtual_placement,
        job_chunk_size=_count(queue, "jobChunkSize"),
        runs_jumbo_jobs=queue.runs_jumbo_jobs,
        min_ranges_for_jumbo=_count(queue, "minEventsForJumbo") or 0,
        status=queue.status,
        jobseed=queue.jobseed,
    )


def _count(queue: Queue, option: str) -> int | None:
    """The number that an option of the queue states; None: it states none. What is no number above zero is none."""
    stated = queue.options.get(option, "")
    return int(stated) if stated.isdecimal() and int(stated) > 0 else None


def _software_of(task: Task) -> SoftwareNeeds:
    named = {"architecture": task.architecture, "trans_home": task.trans_home, "trans_uses": task.trans_uses}
    return software_of_task({**named, "container_name": task.container_name}, task.rules)


def platform_at(published: QueueSoftware | None, needs: SoftwareNeeds) -> str:
    """The platform that jobs at a queue are told.

    A regular expression becomes one of the platforms that the queue publishes.

    A queue that publishes none takes the expression as it is, if it lists the release or takes everything.
    Source: PanDA brokerage, Checks for CPU and/or GPU Hardware.
    """
    return resolve_platform(published, needs) or needs.architecture.platforms


def for_other_jobs(ranked: Sequence[QueueFacts]) -> list[QueueFacts]:
    """Queues for other jobs: those with useJumboJobs are left to jumbo jobs unless there is no other.

    Where there is no other, jobs that wait are split by their limits; scouts run and events are merged there.
    """
    return [queue for queue in ranked if not queue.runs_jumbo_jobs] or list(ranked)
