"""Files of secondary datasets that follow the master's files of a job.

Source: JEDI, Dataset attributes (nosplit, repeat, reusable, ratio, eventRatio, nFilesPerJob).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from services.job_generation.policy.values import Dataset, Unit
from shared.brokerage.smallest_job import counted_events, secondary_files


class NoSecondaryLeft(Exception):
    """A secondary dataset has no file left for the next job; `reason` says which."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self.reason = f"secondary dataset {dataset} has not enough unused files for another job"
        super().__init__(self.reason)


@dataclass(frozen=True)
class Pool:
    """The units of one secondary dataset that may be used; `start` is where the next job goes on.

    `sizes` and `events` are running totals over the units, with a zero in front: what a job of n files reads is one
    subtraction. `by_boundary`: the units for the job of each boundary, where it is said which job reads what; that job
    takes all of them. `is_of_job`: it is such a part.
    """

    dataset: Dataset
    units: tuple[Unit, ...]
    start: int = 0
    by_boundary: Mapping[int, tuple[Unit, ...]] | None = None
    is_of_job: bool = False
    sizes: Sequence[int] = field(default=(), compare=False, repr=False)
    events: Sequence[int] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.sizes) == len(self.units) + 1:
            return
        sizes = accumulate((unit.size_bytes for unit in self.units), initial=0)
        events = accumulate((max(1, counted_events(unit.events)) for unit in self.units), initial=0)
        object.__setattr__(self, "sizes", tuple(sizes))
        object.__setattr__(self, "events", tuple(events))

    @property
    def is_whole(self) -> bool:
        """Whether every job takes all of it (nosplit)."""
        return self.is_of_job or bool(self.dataset.attributes.get("nosplit"))

    def at(self, boundary: int | None) -> Pool:
        """What the job of a boundary may take."""
        if self.by_boundary is None:
            return self
        return Pool(self.dataset, self.by_boundary.get(boundary or 0, ()), is_of_job=True)

    def files_wanted(self, n_master: int, n_events: int) -> int:
        """Files of this dataset for a job of so many master files.

        It follows ratio, nFilesPerJob, eventRatio and nosplit.
        """
        if self.is_of_job:
            return len(self.units)
        return secondary_files(self.dataset.attributes, len(self.units), n_master, n_events, self._files_for_events)

    def _files_for_events(self, wanted_events: float) -> int:
        """The fewest files from `start` on that hold so many events; a repeated dataset is read round and round."""
        if not self.units:
            return 1
        start = self.start % len(self.units) if self.dataset.is_shared else self.start
        rounds, rest = 0.0, wanted_events + self.events[min(start, len(self.units))]
        if self.dataset.is_shared and rest > self.events[-1]:
            rounds, rest = divmod(rest, self.events[-1])
        last = bisect_left(self.events, rest)
        return max(1, int(rounds) * len(self.units) + last - start)

    def bytes_of(self, n_files: int) -> int:
        """Bytes of the next files. Raises NoSecondaryLeft as `take` does."""
        if self.is_whole:
            return self.sizes[-1]
        if not self.dataset.is_shared:
            if self.start + n_files > len(self.units):
                raise NoSecondaryLeft(self.dataset.name)
            return self.sizes[self.start + n_files] - self.sizes[self.start]
        if not self.units:
            raise NoSecondaryLeft(self.dataset.name)
        first = self._first(n_files)
        rounds, last = divmod(first + n_files, len(self.units))
        return rounds * self.sizes[-1] + self.sizes[last] - self.sizes[first]

    def _first(self, n_files: int) -> int:
        """Where a shared dataset is read on.

        One that is repeated is used in a ring; one that is reusable begins again where its rest is too small for a job.
        """
        first = self.start % len(self.units)
        if self.dataset.attributes.get("reusable") and first + n_files > len(self.units):
            return 0
        return first

    def take(self, n_files: int) -> tuple[Unit, ...]:
        """The next files. A shared dataset starts again at its end; another one raises NoSecondaryLeft."""
        if self.is_whole:
            return self.units
        if self.dataset.is_shared:
            if not self.units:
                raise NoSecondaryLeft(self.dataset.name)
            first = self._first(n_files)
            return tuple(self.units[(first + place) % len(self.units)] for place in range(n_files))
        if self.start + n_files > len(self.units):
            raise NoSecondaryLeft(self.dataset.name)
        return self.units[self.start : self.start + n_files]

    def after(self, n_files: int) -> Pool:
        """The pool once a job has taken that many."""
        if self.is_whole:
            return self
        first = self._first(n_files) if self.dataset.is_shared and self.units else self.start
        return replace(self, start=first + n_files)
