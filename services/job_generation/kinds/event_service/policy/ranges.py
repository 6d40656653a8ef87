"""How the events of a file are cut into ranges (JEDI: The JEDI_Events table)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from services.job_generation.policy.values import Unit
from services.job_generation.specification.job_source import Undefinable

#: ranges of one file at most: more are a mistake of the task
MOST_RANGES_OF_FILE = 100_000


@dataclass(frozen=True, slots=True)
class NewRange:
    """One range: its number in the file, its first and last event by position.

    `offset` is added to them for pilots.
    """

    file_id: int
    dataset_id: int
    number: int
    first_event: int
    last_event: int
    offset: int


class KeptRange(NamedTuple):
    """A range that an earlier job set of its file processed, with its number in the file."""

    number: int
    first_event: int
    last_event: int


def cut(
    units: Sequence[Unit],
    events_per_range: int,
    *,
    within_files: bool,
    kept: Mapping[int, Sequence[KeptRange]] = MappingProxyType({}),
) -> list[NewRange]:
    """The ranges of these units, in order. Raises Undefinable where a number of events is not known.

    Positions count from 1 in a file. With `within_files` (inFilePosEvtNum) pilots are told these; without, the numbers
    of the events where the file's first one is known. What lies between the `kept` ranges of a file (by its id) is cut
    anew, and takes the numbers that they leave free: their events decide, as the width may have changed since.

    Examples: 25 events in ranges of 10 are 1-10, 11-20 and 21-25; with first event 101 pilots are told 101-110, 111-120
    and 121-125. With 11-20 kept as number 2, ranges of 25 are 1-10 (number 1) and 21-25 (number 3).
    """
    found = []
    for unit in units:
        n_events = unit.events
        if not n_events or n_events < 0:
            raise Undefinable(f"file {unit.lfn} has no number of events: its events cannot be handed out in ranges")
        n_ranges = -(-n_events // events_per_range)
        if n_ranges > MOST_RANGES_OF_FILE:
            raise Undefinable(
                f"file {unit.lfn} has {n_events} events: {n_ranges} ranges of {events_per_range}; "
                f"at most {MOST_RANGES_OF_FILE} are allowed, raise nEventsPerWorker"
            )
        start, of_file = unit.start_event or 0, kept.get(unit.file_id, ())
        offset = 0 if within_files or unit.first_event is None else unit.first_event - start - 1
        numbers = _free_numbers({one.number for one in of_file})
        for first, last in _left(start + 1, start + n_events, of_file):
            for begin in range(first, last + 1, events_per_range):
                end = min(begin + events_per_range - 1, last)
                found.append(NewRange(unit.file_id, unit.dataset_id, next(numbers), begin, end, offset))
    return found


def _left(first: int, last: int, kept: Sequence[KeptRange]) -> Iterator[tuple[int, int]]:
    """The events from first to last that are in none of the kept ranges, in pieces without a gap."""
    for one in sorted(kept, key=lambda each: each.first_event):
        if first < one.first_event:
            yield first, min(one.first_event - 1, last)
        first = max(first, one.last_event + 1)
    if first <= last:
        yield first, last


def _free_numbers(taken: Set[int]) -> Iterator[int]:
    return (number for number in itertools.count(1) if number not in taken)
