"""Cuts one chunk into jobs, greedily and in order.

Source: JEDI, Workflow for tasks with input datasets; dataset attributes.

A job takes master units in order, `files_per_step` at a time, with secondary files by ratio, and ends before the first
addition that breaks a limit. It always has at least one step, unless even that does not fit the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.job_generation.policy.limits import JobSizeLimits, Totals, refusal
from services.job_generation.policy.rules import SplitRules
from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Unit
from shared.brokerage.smallest_job import counted_events, secondary_files
from shared.model.needs import WorkNeeds


class NoSecondaryLeft(Exception):
    """A secondary dataset has no file left for the next job; `reason` says which."""

    def __init__(self, dataset: str) -> None:
        self.reason = f"secondary dataset {dataset} has not enough unused files for another job"
        super().__init__(self.reason)


@dataclass(frozen=True)
class Pool:
    """The units of one secondary dataset that may be used; `start` is where a repeated one goes on."""

    dataset: Dataset
    units: tuple[Unit, ...]
    start: int = 0

    def files_wanted(self, n_master: int, n_events: int) -> int:
        """Files of this dataset for a job of so many master files.

        It follows ratio, nFilesPerJob, eventRatio and nosplit.
        """
        return secondary_files(self.dataset.attributes, len(self.units), n_master, n_events, self._files_for_events)

    def _files_for_events(self, wanted_events: float) -> int:
        have, n_files = 0, 0
        while have < wanted_events and self.units and n_files < 10_000:
            have += max(1, counted_events(self.units[(self.start + n_files) % len(self.units)].events))
            n_files += 1
        return max(1, n_files)

    def take(self, n_files: int) -> tuple[Unit, ...]:
        """The next files. A repeated dataset starts again at its end; another one raises NoSecondaryLeft."""
        if self.dataset.attributes.get("nosplit"):
            return self.units
        if self.dataset.is_shared:
            if not self.units:
                raise NoSecondaryLeft(self.dataset.name)
            return tuple(self.units[(self.start + i) % len(self.units)] for i in range(n_files))
        if self.start + n_files > len(self.units):
            raise NoSecondaryLeft(self.dataset.name)
        return self.units[self.start : self.start + n_files]

    def after(self, n_files: int) -> Pool:
        """The pool once a job has taken that many."""
        return self if self.dataset.attributes.get("nosplit") else replace(self, start=self.start + n_files)


@dataclass(frozen=True)
class Cut:
    """One job's input, the position after it, and the pools after it; or why nothing fits here."""

    job: JobInput | None
    position: int
    pools: tuple[Pool, ...]
    reason: str = ""


def _breaks(previous: Unit, unit: Unit, rules: SplitRules) -> bool:
    """Whether the two must not be in one job: another boundary or lumi block, or a gap between events."""
    if rules.group_boundary is not None and previous.boundary_id != unit.boundary_id:
        return True
    if rules.respects_lumi_block and previous.lumi_block != unit.lumi_block:
        return True
    if unit.start_event is None or previous.end_event is None:
        return False
    if unit.lfn == previous.lfn:
        return unit.start_event != previous.end_event + 1
    if not rules.crosses_files or previous.first_event is None or unit.first_event is None:
        return not rules.crosses_files
    return unit.first_event != previous.first_event + (previous.events or 0)


def inseparable(units: Sequence[Unit], position: int, rules: SplitRules) -> int:
    """How many units from `position` on must be in one job: one boundary with groupBoundaryID 3 or 4.

    Limits on the size of a job (files, events, nGBPerJob) do not split a boundary; a queue where it does not fit is not
    used. Units without a boundary may be joined and parted freely. Source: JEDI, BOUNDARYID.
    """
    boundary = units[position].boundary_id
    if not rules.keeps_boundaries_whole or boundary is None:
        return 1
    return next((n for n, unit in enumerate(units[position:]) if unit.boundary_id != boundary), len(units) - position)


def in_order_of_boundaries(units: Sequence[Unit], rules: SplitRules) -> Sequence[Unit]:
    """The units with those of a boundary side by side, where boundaries stay whole; else as they are."""
    if not rules.keeps_boundaries_whole:
        return units
    return sorted(units, key=lambda unit: (unit.boundary_id is None, unit.boundary_id or 0, unit.file_id))


def _step(units: Sequence[Unit], position: int, last: Unit | None, rules: SplitRules, room: int) -> list[Unit]:
    """The next units to add together: a boundary where the task asks for it, else up to `files_per_step`.

    They are cut where a job must end.
    """
    n_together = inseparable(units, position, rules)
    if n_together > 1:
        fits = last is None or not _breaks(last, units[position], rules)
        return list(units[position : position + n_together]) if fits else []
    step: list[Unit] = []
    for unit in units[position : position + min(rules.files_per_step, room)]:
        if last is not None and _breaks(last, unit, rules):
            break
        step.append(unit)
        last = unit
    return step


def _added(totals: Totals, taken: Sequence[Unit], step: Sequence[Unit]) -> Totals:
    """Totals with a step more; two ranges of one file are read once."""
    before = taken[-1].lfn if taken else None
    new_bytes, effective, events = 0, 0.0, 0
    for unit in step:
        if unit.lfn != before:
            new_bytes += unit.size_bytes
        before = unit.lfn
        effective += unit.effective_bytes
        events += counted_events(unit.events)
    return Totals(
        totals.n_files + len(step),
        totals.n_secondary,
        totals.n_events + events,
        totals.input_bytes + new_bytes,
        totals.effective_bytes + effective,
    )


def _with_secondary(totals: Totals, pools: Sequence[Pool]) -> tuple[Totals, dict[int, tuple[Unit, ...]], list[Pool]]:
    """Secondary files for these master files, and what they add."""
    chosen: dict[int, tuple[Unit, ...]] = {}
    left: list[Pool] = []
    n_files, n_bytes = 0, 0
    for pool in pools:
        wanted = pool.files_wanted(totals.n_files, totals.n_events)
        units = pool.take(wanted)
        chosen[pool.dataset.dataset_id] = units
        left.append(pool.after(wanted))
        n_files += len(units)
        n_bytes += sum(unit.size_bytes for unit in units)
    whole = replace(
        totals,
        n_secondary=n_files,
        input_bytes=totals.input_bytes + n_bytes,
        effective_bytes=totals.effective_bytes + n_bytes,
    )
    return whole, chosen, left


def cut_one(
    units: Sequence[Unit],
    position: int,
    pools: Sequence[Pool],
    limits: JobSizeLimits,
    rules: SplitRules,
    needs: WorkNeeds,
    queue: QueueFacts,
) -> Cut:
    """The next job at this queue, from `position` on.

    Raises NoSecondaryLeft if not even one step has its secondaries.
    """
    taken: list[Unit] = []
    totals, chosen = Totals(), dict[int, tuple[Unit, ...]]()
    left: Sequence[Pool] = pools
    start = position
    while position < len(units):
        first = not taken
        room = len(units) if first else limits.max_files - len(taken)
        if room < min(rules.files_per_step, len(units) - position) and not first:
            break
        step = _step(units, position, taken[-1] if taken else None, rules, room)
        if not step:
            break
        master_totals = _added(totals, taken, step)
        try:
            whole, secondary, left_then = _with_secondary(master_totals, pools) if pools else (master_totals, {}, [])
        except NoSecondaryLeft:
            if first:
                raise
            break
        why = refusal(whole, limits, needs, queue, first=first)
        if why is not None:
            if first:
                return Cut(None, start, tuple(pools), why)
            break
        taken += step
        totals, chosen, left = master_totals, secondary, left_then if pools else pools
        position += len(step)
        if len(taken) >= limits.max_files or _full(totals, limits) or len(step) < rules.files_per_step:
            break
    return Cut(JobInput(tuple(taken), chosen), position, tuple(left))


def _full(totals: Totals, limits: JobSizeLimits) -> bool:
    return limits.max_events is not None and totals.n_events >= limits.max_events
