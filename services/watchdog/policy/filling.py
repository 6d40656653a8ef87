"""Which queues are empty, which tasks are sent to them, and when such tasks may go anywhere again.

Source: PanDA server, queue filler: MAX_PREASSIGNED_TASKS_<label>, MIN_FILES_READY_<label>, MIN_FILES_REMAINING_<label>.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from shared.brokerage.software import Lack, lack_of, software_of_task
from shared.brokerage.zero_share import policy_of, work_of
from shared.config.parameter import Parameter, set_by
from shared.model.architecture import InvalidArchitecture
from shared.model.grid import Grid
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.task.in_effect import rules_of

LABEL, LABEL_SUFFIX, COMPONENT = "managed", "<label>", "queue_filler"
#: a queue is empty for so long before tasks are sent to it, unless somebody set its slots
EMPTY_FOR = timedelta(minutes=30)
#: a queue without a start within so long is not believed to run jobs
STARTED_WITHIN = timedelta(hours=24)
#: a task that was let go is not sent to a queue again for so long
LEFT_ALONE_H = 12
#: of the jobs that a queue may have waiting: less is empty, more is busy
EMPTY_BELOW, BUSY_ABOVE, LEAST_WAITING = 0.25, 0.375, 20


def _per_label(key: str, default: float, unit: str, means: str) -> Parameter[float]:
    return Parameter(COMPONENT, key, default, unit, means, suffixes=(LABEL_SUFFIX,), only_family=True)


@dataclass(frozen=True)
class FillLimits:
    """How many tasks are sent to a queue, and how much input they must have."""

    max_tasks: int = set_by(
        _per_label("MAX_PREASSIGNED_TASKS", 3.0, "tasks", "sent to an empty queue, of one resource type; 0: none"), int
    )
    files_ready: int = set_by(_per_label("MIN_FILES_READY", 50.0, "files", "least that such a task may use now"), int)
    files_remaining: int = set_by(
        _per_label("MIN_FILES_REMAINING", 100.0, "files", "least that such a task has left"), int
    )
    files_ready_in_container: int = set_by(
        Parameter(COMPONENT, "MIN_FILES_READY", 10.0, "files", "the same at queues that run containers of their own",
                  suffixes=(f"{LABEL_SUFFIX}_FC",), only_family=True), int)  # fmt: skip


@dataclass(frozen=True)
class QueueUse:
    """Waiting (activated and starting) and running jobs at a queue, and its slots where somebody set them."""

    n_waiting: int = 0
    n_running: int = 0
    n_slots: int = 0
    last_job_start_at: datetime | None = None

    def n_standby(self, queue: Queue) -> int:
        """Jobs that its slots would run."""
        return self.n_slots // (queue.core_count or 8)


def is_empty(queue: Queue, use: QueueUse, now: datetime) -> bool:
    """Whether production is sent to a queue.

    It is online, takes any memory and plain jobs, starts jobs or has slots, and fewer wait than a quarter of
    max(20, 2 x what runs or would). Example: with 40 running jobs 19 waiting ones are few, 20 are not.
    """
    starts = use.last_job_start_at is not None and now - use.last_job_start_at <= STARTED_WITHIN
    may_wait = max(LEAST_WAITING, 2 * max(use.n_running, use.n_standby(queue)))
    return (
        queue.status is QueueStatus.ONLINE
        and queue.type in (QueueType.PRODUCTION, QueueType.UNIFIED)
        and queue.min_rss_mb == 0
        and queue.jobseed != "es"
        and queue.core_count > 0
        and (starts or use.n_slots > 0)
        and use.n_waiting < EMPTY_BELOW * may_wait
    )


def is_ripe(since: datetime, use: QueueUse, now: datetime) -> bool:
    """Whether an empty queue has been so for long enough."""
    return use.n_slots > 0 or now - since >= EMPTY_FOR


def why_busy(queue: Queue | None, use: QueueUse) -> str | None:
    """Why tasks are not kept at a queue any more; None: they stay."""
    if queue is None or queue.status is not QueueStatus.ONLINE:
        return "the queue is not online any more"
    most = max(BUSY_ABOVE * max(LEAST_WAITING, 2 * use.n_running), use.n_standby(queue))
    return f"{use.n_waiting} jobs wait at the queue, more than {most:g}" if use.n_waiting > most else None


class Miss(IntEnum):
    """Why a task is not sent to an empty queue: the last of these is nearest to being sent."""

    LET_GO = 0
    FILES = 1
    INPUT = 2
    CORES = 3
    MEMORY = 4
    SOFTWARE = 5
    ZERO_SHARE = 6
    ROOM = 7

    @property
    def told(self) -> str:
        """For people; without names of queues and numbers, which change at each look."""
        return _TOLD[self]


_NOT_TAKEN = "no nearly empty queue that reads its input takes it"
_TOLD = {
    Miss.LET_GO: f"a queue filled up, or it made no jobs there, in the last {LEFT_ALONE_H} h",
    Miss.FILES: "too few of its files may be used now (MIN_FILES_READY) or are left (MIN_FILES_REMAINING)",
    Miss.INPUT: "no nearly empty queue reads a storage that has its input",
    Miss.CORES: f"{_NOT_TAKEN}: it needs another number of cores",
    Miss.MEMORY: f"{_NOT_TAKEN}: it needs more memory",
    Miss.SOFTWARE: f"{_NOT_TAKEN}: its software is not there",
    Miss.ZERO_SHARE: f"{_NOT_TAKEN}: the share of its kind of work there is 0",
    Miss.ROOM: "the nearly empty queues that would take it have enough tasks (MAX_PREASSIGNED_TASKS)",
}


def misses(queue: Queue, grid: Grid, task: Mapping[str, Any]) -> Miss | None:
    """Why a queue would not run jobs of a task, as brokerage asks; None where it would."""
    cores = task["core_count"] or 1
    if not queue.is_unified and (queue.core_count > 1) != (cores > 1):
        return Miss.CORES
    per_core = str(task["ram_unit"] or "").startswith("MBPerCore")
    ram_mb = (task["base_ram_count"] or 0) + (task["ram_count"] or 0) * (queue.core_count if per_core else 1)
    if queue.max_rss_mb and 0.95 * ram_mb >= queue.max_rss_mb:
        return Miss.MEMORY
    try:
        needs = software_of_task(task, rules_of(task["split_rule"]))
    except InvalidArchitecture:
        return Miss.SOFTWARE
    work = work_of(task["processing_type"] or "", task["working_group"] or "", task["gshare"] or "",
                   task["current_priority"])  # fmt: skip
    if lack_of(queue, grid.software, needs) is not Lack.NOTHING:
        return Miss.SOFTWARE
    return None if policy_of(queue).turns_away(work) == 0 else Miss.ZERO_SHARE


def runs_own_containers(queue: Queue, grid: Grid) -> bool:
    """Whether a queue has no software but in the containers that it publishes."""
    published = grid.software.get(queue.name)
    return published is not None and bool(published.containers) and not {"any", "/cvmfs"} & set(published.containers)


def disks_of(queue: Queue, grid: Grid) -> list[str]:
    """Storages that production at a queue reads, without tapes."""
    names = queue.storages("read", analysis=False)
    return [name for name in names if name in grid.storages and not grid.storages[name].is_tape]


def told(queue: str, since: datetime) -> str:
    """Why a task is sent to a queue."""
    return f"preassigned to {queue}, which has been nearly empty since {since:%Y-%m-%d %H:%M} UTC and has its input"


def surplus(tasks: Iterable[int], most: int) -> Collection[int]:
    """Tasks of a queue beyond the number that it may have: the newest."""
    return sorted(tasks)[most:]
