"""The smallest job that a task's split rules make of some input.

Brokerage estimates it for a whole chunk and generation for the first files of a job: how secondary files follow and
what a file of unknown events counts is decided here for both, so that a queue that is ranked can be given a job.
Sources: PanDA brokerage, disk usage and walltime of a job; JEDI, Dataset attributes and Output merging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.task.in_effect import SplitRules

#: a job merges so much of its largest output, unless the task says otherwise
MERGED_GB = 5.0
#: the files of all outputs that one job reads where onSiteMerging puts everything into one
MAX_FILES_MERGED_ON_SITE = 1000


@dataclass(frozen=True)
class SmallestJob:
    """The smallest job that the task's split rules allow: estimates are made for it.

    `input_bytes`: of all its input, secondary files included.
    """

    n_files: int = 1
    n_events: int = 0
    input_bytes: int = 0


@dataclass(frozen=True)
class Boundary:
    """The most files, events and bytes of one boundary of a chunk, and how many boundaries it has.

    With groupBoundaryID 3 and 4 a boundary is one job (JEDI: BOUNDARYID).
    """

    n_files: int
    n_events: int
    n_bytes: int
    n_boundaries: int = 1


@dataclass(frozen=True)
class SecondaryInput:
    """One secondary dataset: what it has, and how its files follow the master's.

    Source: JEDI, Dataset attributes.
    """

    n_files: int
    n_bytes: int
    n_events: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)


def counted_events(n_events: int | None) -> int:
    """Events of one file or range: one where they are unknown."""
    return 1 if n_events is None else n_events


def is_shared(attributes: Mapping[str, Any]) -> bool:
    """Whether many jobs use the same files of a secondary dataset.

    Then no job owns them (JEDI: Dataset attributes).
    """
    return any(attributes.get(key) for key in ("nosplit", "repeat", "reusable", "ru"))


def secondary_files(
    attributes: Mapping[str, Any], n_files: int, n_master: int, n_events: int, holding: Callable[[float], int]
) -> int:
    """How many of a secondary dataset's `n_files` a job of so many master files and events takes.

    nosplit: all; nFilesPerJob: so many; eventRatio: as many as hold that many events (`holding`); ratio (1 if absent)
    for each master file, rounded up. A file that is repeated is one file of the job: 50 master files with a repeated
    dataset of 2 files take 2.
    """
    if attributes.get("nosplit"):
        return n_files
    if attributes.get("nFilesPerJob"):
        wanted = int(attributes["nFilesPerJob"])
    elif attributes.get("eventRatio"):
        wanted = holding(float(attributes["eventRatio"]) * n_events)
    else:
        wanted = rounded_up(n_master * float(attributes.get("ratio") or 1))
    return min(wanted, n_files) if is_shared(attributes) else wanted


def least_secondary_files(ratio: float, n_units: int, units_per_job: int | None) -> int:
    """Secondary files that the units of a master (files, or ranges of events) need at least, by ratio.

    A job takes ratio files for each of its units, rounded up, and no other job takes them. A range counts as a file of
    its own. Without a fixed number of units in a job only the sum is rounded up.

    Example: 8 ranges with ratio 1 need 8 files, of however many files they are; 10 units with ratio 0.5 need 10 in
    jobs of one unit, 7 in jobs of three (2 + 2 + 2 + 1), 5 in jobs of a size that is not known.
    """
    if units_per_job is None:
        return rounded_up(n_units * ratio)
    n_full, rest = divmod(n_units, units_per_job)
    return n_full * rounded_up(units_per_job * ratio) + rounded_up(rest * ratio)


def most_secondary_files(ratio: float, n_units: int) -> int:
    """What they need where each unit is a job of its own: 10 units with ratio 0.5 need 10."""
    return n_units * rounded_up(ratio)


def rounded_up(n_files: float) -> int:
    """Whole files: 0.1 x 30 is 3 files although it comes out a little above."""
    return math.ceil(n_files - 1e-9)


def _secondary_bytes(secondary: SecondaryInput, n_master: int, n_events: int) -> float:
    events_per_file = max(1.0, secondary.n_events / max(1, secondary.n_files))
    holding = lambda wanted: max(1, math.ceil(wanted / events_per_file))  # noqa: E731
    wanted = secondary_files(secondary.attributes, secondary.n_files, n_master, n_events, holding)
    return wanted * secondary.n_bytes / max(1, secondary.n_files)


def smallest_job(
    rules: SplitRules,
    n_files: int,
    n_events: int,
    input_bytes: int,
    *,
    whole_files: int | None = None,
    secondary: Sequence[SecondaryInput] = (),
    boundary: Boundary | None = None,
) -> SmallestJob:
    """Files, events and bytes of the smallest job of some input.

    `n_files` are whole files that are still to be cut into ranges where the rules say so, or, with `whole_files`, the
    units of a chunk (files or ranges of events) and the number of files that they are in: the whole file is read for
    each range. nEventsPerJob decides the events; else nFilesPerJob (1 if absent) files of average size do. With a
    dynamic number of events it is one range. Rules that another one disables do not count.

    Where a boundary is one job, the job of the largest `boundary` is taken, whatever the other rules say: a queue where
    it does not fit cannot be given it.

    Example: boundaries of 2 files (200 events, 2 GB) and of 5 files (100 events, 1 GB) need 5 files, 200 events, 2 GB.
    """
    if boundary is not None:
        followed = sum(_secondary_bytes(one, boundary.n_files, boundary.n_events) for one in secondary)
        return SmallestJob(boundary.n_files, boundary.n_events, int(boundary.n_bytes + followed))
    units = max(1, n_files)
    of_unit = max(1.0, n_events / units)  # a file of unknown events counts as one
    granularity, wanted_events = rules.granularity, rules.n_events_per_job
    wanted_files = None if granularity else rules.n_files_per_job
    range_events = granularity or wanted_events or rules.target_events_per_job
    if whole_files is None and range_events:
        of_unit = min(of_unit, float(range_events))
    per_job = min(units, max(1, wanted_files or 1))
    if wanted_events and not wanted_files and n_events:
        per_job = min(units, max(1, round(wanted_events / of_unit)))
    events = max(wanted_events, int(of_unit)) if wanted_events else int(of_unit * per_job)
    files_of_all = units if whole_files is None else min(units, max(1, whole_files))
    files_read = math.ceil(per_job * files_of_all / units)
    size = input_bytes / files_of_all * files_read
    size += sum(_secondary_bytes(one, per_job, events) for one in secondary)
    return SmallestJob(per_job, events, int(size))


def most_events(rules: SplitRules) -> int:
    """Events of the largest job of a dynamic number of events; 0 where the number is not dynamic.

    Whole ranges, at most maxEventsPerJob and nFilesPerJob (else nMaxFilesPerJob, else 200) of them.
    """
    granularity, limit = rules.granularity, rules.max_events_per_job
    if not granularity:
        return 0
    return granularity * (max(1, min(rules.max_files, limit // granularity)) if limit else rules.max_files)
