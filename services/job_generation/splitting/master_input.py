"""Master units of one chunk with running totals: what a job of any length takes is a subtraction.

Source: JEDI, Event-level splitting; BOUNDARYID; luminosity blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from operator import sub
from typing import cast

from services.job_generation.policy.values import Unit
from services.job_generation.splitting.limits import Totals
from services.job_generation.splitting.middle_names import middle_name
from shared.brokerage.smallest_job import counted_events
from shared.task.in_effect import SplitRules


@dataclass(frozen=True)
class MasterInput:
    """Units in the order in which they are used.

    `events`, `new_bytes` and `effective_bytes` are running totals with a zero in front; a file of several ranges counts
    its bytes once, with its first range. `ends[n]`: the place after the last unit that may be in one job with unit n;
    None: nothing parts them. `together[n]`: how many units from there on must be in one job; None: one.
    """

    units: tuple[Unit, ...]
    events: Sequence[int]
    new_bytes: Sequence[int]
    effective_bytes: Sequence[float]
    ends: Sequence[int] | None = None
    together: Sequence[int] | None = None

    @cached_property
    def largest(self) -> Totals:
        """What no unit has more of."""
        bytes_of_one = max([unit.size_bytes for unit in self.units], default=0)
        return Totals(1, 0, max(_steps(self.events), default=0), bytes_of_one, float(bytes_of_one))

    @cached_property
    def fewest_events(self) -> int:
        """What every unit has at least."""
        return min(_steps(self.events), default=0)

    @cached_property
    def has_own_needs(self) -> bool:
        """Whether a unit has memory of its own or a site to avoid: it has to be asked before it is taken."""
        n_units = len(self.units)
        memory, sites = [unit.ram_mb for unit in self.units], [unit.avoided_site for unit in self.units]
        return memory.count(None) < n_units or sites.count(None) < n_units

    def __len__(self) -> int:
        return len(self.units)

    def end_of(self, position: int) -> int:
        """The place where a job from `position` on must end at the latest."""
        return len(self.units) if self.ends is None else self.ends[position]

    def why_parted(self, position: int) -> str:
        """Why the unit there is in no job with the one before it, for people."""
        previous, unit = self.units[position - 1], self.units[position]
        if previous.boundary_id != unit.boundary_id or previous.lumi_block != unit.lumi_block:
            return "another boundary or luminosity block follows"
        if previous.lfn != unit.lfn:
            return f"file {previous.lfn} ends"
        return "a gap between events follows"

    def inseparable(self, position: int) -> int:
        """How many units from there on must be in one job."""
        return 1 if self.together is None else self.together[position]

    def totals(self, position: int, n_units: int) -> Totals:
        """What a job of so many units takes of the master; its first file is read whole, even by two jobs."""
        last = position + n_units
        first_bytes = self.units[position].size_bytes if n_units else 0
        return Totals(
            n_units,
            0,
            self.events[last] - self.events[position],
            first_bytes + self.new_bytes[last] - self.new_bytes[min(position + 1, last)],
            self.effective_bytes[last] - self.effective_bytes[position],
        )


def _steps(totals: Sequence[int]) -> Iterator[int]:
    """What each unit adds to running totals."""
    return map(sub, islice(totals, 1, None), totals)


def master_input(units: Sequence[Unit], rules: SplitRules) -> MasterInput:
    """The units with their totals, and where jobs must end by these rules.

    With groupBoundaryID 3 and 4 the units of a boundary are put side by side.
    """
    if rules.keeps_boundaries_whole:
        units = sorted(units, key=lambda unit: (unit.boundary_id is None, unit.boundary_id or 0, unit.file_id))
    units = tuple(units)
    sizes = [unit.size_bytes for unit in units]
    events = [unit.n_events for unit in units]
    in_ranges = [unit.start_event for unit in units].count(None) < len(units)
    new_bytes = sizes
    effective: Sequence[float] | None = None
    if in_ranges:
        names = [unit.lfn for unit in units]
        new_bytes = [size if place == 0 or names[place] != names[place - 1] else 0 for place, size in enumerate(sizes)]
        effective = [unit.effective_bytes for unit in units]
    counted = events if None not in events else [counted_events(unit.events) for unit in units]
    all_bytes = list(accumulate(new_bytes, initial=0))
    return MasterInput(
        units,
        list(accumulate(cast(list[int], counted), initial=0)),
        all_bytes,
        all_bytes if effective is None else list(accumulate(effective, initial=0.0)),
        _ends(units, rules, in_ranges=in_ranges),
        _together(units) if rules.keeps_boundaries_whole else None,
    )


def _ends(units: Sequence[Unit], rules: SplitRules, *, in_ranges: bool) -> list[int] | None:
    if not (in_ranges or rules.group_boundary is not None or rules.respects_lumi_block or rules.names_from_files):
        return None
    ends = [len(units)] * len(units)
    for place in range(len(units) - 2, -1, -1):
        parted = _breaks(units[place], units[place + 1], rules)
        ends[place] = place + 1 if parted else ends[place + 1]
    return ends


def _together(units: Sequence[Unit]) -> list[int]:
    """Units of a boundary from each place on; those without a boundary are parted freely."""
    found = [1] * len(units)
    for place in range(len(units) - 2, -1, -1):
        boundary = units[place].boundary_id
        if boundary is not None and boundary == units[place + 1].boundary_id:
            found[place] = found[place + 1] + 1
    return found


def _breaks(previous: Unit, unit: Unit, rules: SplitRules) -> bool:
    """Whether the two must not be in one job: another boundary, lumi block or name of outputs, or a gap between events.

    Ranges of two files are joined only by a target number of events or a dynamic one (JEDI: Event-level splitting).
    """
    if rules.group_boundary is not None and previous.boundary_id != unit.boundary_id:
        return True
    if rules.names_from_files and middle_name(previous.lfn, rules.name_fields) != middle_name(
        unit.lfn, rules.name_fields
    ):
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
