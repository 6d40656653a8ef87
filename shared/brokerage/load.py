"""How busy each row is: jobs by state, pilots and workers.

Replaced as a whole or for the queues that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.columns import QueueColumns
from shared.states.job import JobStatus

# States that are counted; `sent` is a job on its way to a pilot and counts as starting.
STATES = (
    "defined", "assigned", "activated", "starting", "running",
    "throttled", "holding", "transferring", "merging", "waiting", "pending",
)  # fmt: skip
_PLACE = {state: place for place, state in enumerate(STATES)} | {"sent": STATES.index("starting")}


@dataclass(frozen=True)
class JobCount:
    """So many jobs of one VO ("": of none) and resource type at one queue in one state."""

    queue: str
    resource_type: str
    status: JobStatus
    n_jobs: int
    vo: str = ""


@dataclass(frozen=True)
class Activity:
    """Activity of one queue; None where there was none or it is unknown.

    Slots are set by resource type, or by `n_slots` for those types together that have no number of their own.
    """

    queue: str
    last_pilot_at: datetime | None = None
    last_job_start_at: datetime | None = None
    running_workers: int = 0
    submitted_workers: int = 0
    n_slots: int | None = None
    mean_disk_io_kb_s_per_core: float | None = None
    known_since: datetime | None = None
    slots_of_type: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """How busy the rows are: for everybody, or for one VO (`of_vo`), as each decision sees it.

    `counts`: states x rows, of the jobs of all VOs, or of the one that is looked at: what a limit compares, running and
    waiting jobs alike, is of the VO whose work is placed, so that no VO's waiting jobs keep a queue from another one.
    `counts_of_vos`: of each VO that has jobs. Everything else is of the queue as a whole, whoever's jobs it has: its
    pilots, the last start of a job, workers, slots, and the disk IO of running jobs, which are physical.

    Times are seconds since 1970, NaN for never. `n_slots`: -1 where not set. Numbers that a unified queue has as a
    whole, of workers and of slots, are divided evenly among its rows. `disk_io_kb_s`: mean of the running jobs for each
    core, NaN where it was not measured. `known_since_s`: since when signs of life are noted for the row; nothing can be
    said about a queue's silence before that.
    """

    counts: NDArray[np.int64]
    counts_of_vos: Mapping[str, NDArray[np.int64]]
    last_pilot_s: NDArray[np.float64]
    last_job_start_s: NDArray[np.float64]
    n_workers: NDArray[np.float64]
    n_slots: NDArray[np.float64]
    disk_io_kb_s: NDArray[np.float64]
    known_since_s: NDArray[np.float64]

    @property
    def observing_since_s(self) -> float:
        """Since when activity is recorded at all; NaN if none ever was, or since when is unknown."""
        known = self.known_since_s[~np.isnan(self.known_since_s)]
        return float(known.min()) if len(known) else float("nan")

    def of_vo(self, vo: str) -> Load:
        """The load as work of one VO sees it; no array is copied."""
        counts = self.counts_of_vos.get(vo)
        return replace(self, counts=np.zeros_like(self.counts) if counts is None else counts)

    def with_assigned(self, jobs: Mapping[tuple[str, int], int]) -> Load:
        """A copy with so many more jobs in state defined, by VO and row.

        They are decided, but not yet in the statistics.
        """
        counts = self.counts.copy()
        of_vos = dict(self.counts_of_vos)
        for vo in {vo for vo, _ in jobs}:
            of_vos[vo] = of_vos[vo].copy() if vo in of_vos else np.zeros_like(counts)
        for (vo, row), n_jobs in jobs.items():
            counts[_PLACE["defined"], row] += n_jobs
            of_vos[vo][_PLACE["defined"], row] += n_jobs
        return replace(self, counts=counts, counts_of_vos=of_vos)

    def __getitem__(self, state: JobStatus) -> NDArray[np.int64]:
        """Jobs in one state, by row."""
        return self.counts[_PLACE[state]]

    @property
    def running(self) -> NDArray[np.int64]:
        return self["running"]

    @property
    def queued(self) -> NDArray[np.int64]:
        """activated + assigned + starting + defined."""
        return self["activated"] + self["assigned"] + self["starting"] + self["defined"]

    @classmethod
    def idle(cls, rows: int) -> Load:
        """Nothing anywhere."""
        never = np.full(rows, np.nan)
        return cls(
            np.zeros((len(STATES), rows), np.int64),
            {},
            never,
            never.copy(),
            np.zeros(rows),
            np.full(rows, -1.0),
            never.copy(),
            never.copy(),
        )

    @classmethod
    def of(cls, columns: QueueColumns, jobs: Iterable[JobCount], activities: Iterable[Activity] = ()) -> Load:
        """The load of all queues; jobs of unknown queues or types are left out."""
        idle = cls.idle(len(columns))
        return idle.updated(columns, jobs, activities, queues=columns.rows_of_queue)

    def updated(
        self,
        columns: QueueColumns,
        jobs: Iterable[JobCount],
        activities: Iterable[Activity],
        queues: Iterable[str] | Mapping[str, object],
    ) -> Load:
        """A copy with new numbers for `queues`; `jobs` has everything that is counted there now."""
        wanted = {name for name in queues if name in columns.rows_of_queue}
        new = replace(
            self,
            counts=self.counts.copy(),
            counts_of_vos=_counts_of_vos(self.counts_of_vos, self.counts, columns, jobs, wanted),
            last_pilot_s=self.last_pilot_s.copy(),
            last_job_start_s=self.last_job_start_s.copy(),
            n_workers=self.n_workers.copy(),
            n_slots=self.n_slots.copy(),
            disk_io_kb_s=self.disk_io_kb_s.copy(),
            known_since_s=self.known_since_s.copy(),
        )
        rows_of_wanted = [row for name in wanted for row in columns.rows_of_queue[name]]
        new.counts[:, rows_of_wanted] = 0
        for counts in new.counts_of_vos.values():
            new.counts[:, rows_of_wanted] += counts[:, rows_of_wanted]
        for activity in activities:
            if activity.queue in wanted:
                rows = columns.rows_of_queue[activity.queue]
                new.last_pilot_s[rows] = _seconds(activity.last_pilot_at)
                new.last_job_start_s[rows] = _seconds(activity.last_job_start_at)
                new.n_workers[rows] = (activity.running_workers + activity.submitted_workers) / len(rows)
                new.n_slots[rows] = _slots(activity, [columns.resource_types[row] for row in rows])
                mean = activity.mean_disk_io_kb_s_per_core
                new.disk_io_kb_s[rows] = np.nan if mean is None else mean
                new.known_since_s[rows] = _seconds(activity.known_since)
        return new


def _counts_of_vos(
    before: Mapping[str, NDArray[np.int64]],
    like: NDArray[np.int64],
    columns: QueueColumns,
    jobs: Iterable[JobCount],
    wanted: Set[str],
) -> dict[str, NDArray[np.int64]]:
    """The counts of each VO, with everything at these queues counted again; without VOs that have no job any more."""
    found = {vo: counts.copy() for vo, counts in before.items()}
    rows_of_wanted = [row for name in wanted for row in columns.rows_of_queue[name]]
    for counts in found.values():
        counts[:, rows_of_wanted] = 0
    for one in jobs:
        place = _PLACE.get(one.status)
        if place is None or one.queue not in wanted:
            continue
        counts = found.setdefault(one.vo, np.zeros_like(like))
        for row in columns.rows_of_queue[one.queue]:
            if columns.resource_types[row] in ("", one.resource_type):
                counts[place, row] += one.n_jobs
    for counts in found.values():
        # Events may be folded out of order: a number below zero is only ever short-lived.
        np.maximum(counts, 0, out=counts)
    return {vo: counts for vo, counts in found.items() if counts.any()}


def _slots(activity: Activity, resource_types: Sequence[str]) -> list[float]:
    """Slots for each row of a queue; a row without resource type takes all of them. -1: none are set."""
    of_type, whole = activity.slots_of_type, activity.n_slots
    if "" in resource_types:
        numbers = [*of_type.values(), *(() if whole is None else (whole,))]
        return [float(sum(numbers)) if numbers else -1.0]
    without = sum(one not in of_type for one in resource_types)
    rest = -1.0 if whole is None else whole / max(1, without)
    return [float(of_type.get(one, rest)) for one in resource_types]


def _seconds(at: datetime | None) -> float:
    return float("nan") if at is None else at.timestamp()
