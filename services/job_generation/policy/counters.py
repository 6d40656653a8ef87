"""Counters of datasets as sums over their files: what a file in a state adds (invariant I3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.model.dataset_types import UNMERGED_TYPES
from shared.states.file import FileStatus
from shared.states.job import JobStatus

USED: frozenset[FileStatus] = frozenset({"picked", "running", "prepared", "merging", "finished", "failed"})
COUNTERS = ("n_files", "n_files_used", "n_files_finished", "n_files_failed", "n_files_on_hold", "n_events_used")


@dataclass
class Counts:
    """Changes of one dataset's counters."""

    n_files: int = 0
    n_files_used: int = 0
    n_files_finished: int = 0
    n_files_failed: int = 0
    n_files_on_hold: int = 0
    n_events_used: int = 0

    def any(self) -> bool:
        """Whether anything changed."""
        return any(getattr(self, name) for name in COUNTERS)


@dataclass
class CounterChanges:
    """Changes of several datasets in one transaction, and the jobs that were counted in it.

    `ended`: jobs by task and state; `core_s`: core seconds of theirs by task, queue and state; `tried`: tasks with jobs
    that did not finish.
    """

    by_dataset: dict[int, Counts] = field(default_factory=dict)
    ended: dict[tuple[int, JobStatus], int] = field(default_factory=lambda: defaultdict(int))
    core_s: dict[tuple[int, str, JobStatus], float] = field(default_factory=lambda: defaultdict(float))
    tried: set[int] = field(default_factory=set)

    def moved(
        self,
        dataset_id: int,
        dataset_type: str,
        from_status: FileStatus | None,
        to_status: FileStatus,
        n_files: int,
        n_events: int,
    ) -> None:
        """Changes when `n_files` files with `n_events` events change state; None: they were inserted."""
        counts = self.by_dataset.setdefault(dataset_id, Counts())
        if from_status is None:
            counts.n_files += n_files
        else:
            self._add(counts, dataset_type, from_status, -n_files, -n_events)
        self._add(counts, dataset_type, to_status, n_files, n_events)

    @staticmethod
    def _add(counts: Counts, dataset_type: str, status: FileStatus, n_files: int, n_events: int) -> None:
        if status in USED:
            counts.n_files_used += n_files
            counts.n_events_used += n_events
        if status == "finished":
            counts.n_files_finished += n_files
        elif status == "failed":
            counts.n_files_failed += n_files
        elif status == "ready" and dataset_type in UNMERGED_TYPES:
            counts.n_files_on_hold += n_files

    def job_ended(self, task_id: int, queue: str | None, status: JobStatus, core_s: float | None) -> None:
        """Count a job that finished or failed; closed and cancelled ones are neither, but were tried."""
        if status in ("failed", "closed", "cancelled"):
            self.tried.add(task_id)
        if status not in ("finished", "failed"):
            return
        self.ended[task_id, status] += 1
        if queue is not None and core_s is not None and core_s > 0:
            self.core_s[task_id, queue, status] += core_s

    def clear(self) -> None:
        """Forget what was written."""
        self.by_dataset.clear()
        self.ended.clear()
        self.core_s.clear()
        self.tried.clear()

    def rows(self) -> Iterable[tuple[int, Counts]]:
        """Changed datasets in order of id: the order in which their rows are locked."""
        return [(key, self.by_dataset[key]) for key in sorted(self.by_dataset) if self.by_dataset[key].any()]
