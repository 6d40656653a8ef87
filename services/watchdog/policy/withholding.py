"""Which production is withheld because all queues beside its input are busy.

Source: PanDA server, task withholder: LIMIT_IOINTENSITY_<label> and LIMIT_PRIORITY_<label>.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by
from shared.model.grid import Grid
from shared.model.names import WILDCARD, matching, names_in
from shared.model.queue import Queue, QueueStatus

LABEL = "managed"
LABEL_SUFFIX = "<label>"
COMPONENT = "task_withholder"
#: a lower limit of the IO intensity counts as this (kB/s)
LEAST_IO_INTENSITY_KB_S = 100
#: for how long a task is withheld at a time, in minutes
WITHHELD_MIN = 15
#: why a task that reads much, of a share with busy queues, goes on
NOT_WITHHELD = "some of its input is beside queues that are not busy, or no copy of it is known"
#: waiting jobs of a share are more than so many times its running ones at a busy queue
BUSY_RATIO = 2


@dataclass(frozen=True)
class WithholdLimits:
    """Who may be withheld; as it is declared nobody."""

    io_intensity_kb_s: float = set_by(
        Parameter(COMPONENT, "LIMIT_IOINTENSITY", 999_999.0, "kB/s", "of tasks withheld, at least",
                  suffixes=(LABEL_SUFFIX,), only_family=True),
        lambda limit: max(limit, LEAST_IO_INTENSITY_KB_S))  # fmt: skip
    priority: int = set_by(
        Parameter(COMPONENT, "LIMIT_PRIORITY", -999_999.0, "priority", "of tasks withheld, below this", -1e9,
                  suffixes=(LABEL_SUFFIX,), only_family=True), int)  # fmt: skip

    @property
    def is_on(self) -> bool:
        """Whether a limit of priorities is set."""
        return self.priority > -999_999


@dataclass(frozen=True)
class ShareAt:
    """Waiting and running jobs of a share at a queue."""

    queue: str
    n_queued: int
    n_running: int


def busy_queues(counts: Iterable[ShareAt], least: int) -> set[str]:
    """Queues at which more of a share waits than twice what runs, and more than NQUEUELIMITSITE.

    Example: with a limit of 20, 21 waiting and 10 running jobs make a queue busy, 20 and 9 do not.
    """
    return {one.queue for one in counts if one.n_queued > max(least, BUSY_RATIO * one.n_running)}


def closed_storages(grid: Grid, busy: Iterable[str]) -> set[str]:
    """Storages from which no task of the share can begin now: blacklisted, or read by busy queues alone."""
    taken: Mapping[bool, set[str]] = {True: set(), False: set()}
    names = set(busy)
    for queue in grid.queues.values():
        if queue.status is QueueStatus.ONLINE:
            taken[queue.name in names].update(queue.storages("read", analysis=False))
    down = {name for name, storage in grid.storages.items() if not storage.works("read_lan")}
    return (taken[True] - taken[False]) | down


def names_closed_queues(grid: Grid, busy: Collection[str], named: str) -> bool:
    """Whether a task names queues, and each of them is busy or offline.

    A name may be that of a queue or of a site, have wildcards, and end with a resource type, as brokerage takes it;
    queues that are named are used in any state but offline. Example: `CERN` closes with all queues of that site.
    """
    sites: dict[str, list[Queue]] = {}
    for queue in grid.queues.values():
        sites.setdefault(queue.site, []).append(queue)
    found: list[Queue] = []
    for name in names_in(named):
        place = name.partition("/")[0]
        for one in matching(place, {**grid.queues, **sites}) if WILDCARD in place else (place,):
            found += [grid.queues[one]] if one in grid.queues else sites.get(one, [])
    return bool(found) and all(queue.name in busy or queue.status is QueueStatus.OFFLINE for queue in found)


def told_of_named(least: int) -> str:
    """Why a task that names queues is withheld, for its owner."""
    return (
        "withheld: it names queues, and at each that is not offline more jobs of its share wait than "
        f"{BUSY_RATIO} x those that run and {least}"
    )


def told(limits: WithholdLimits, least: int) -> str:
    """Why a task is withheld, for its owner."""
    return (
        f"withheld: its input is only where more jobs of its share wait than {BUSY_RATIO} x those that run and "
        f"{least}, or at storages that do not work; its ioIntensity is at least {limits.io_intensity_kb_s:g} kB/s, its "
        f"priority below {limits.priority}"
    )
