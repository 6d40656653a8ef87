"""How the events of a file are cut into ranges (JEDI: The JEDI_Events table)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.job_generation.policy.job_source import Undefinable
from services.job_generation.policy.values import Unit

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


def cut(units: Sequence[Unit], events_per_range: int, *, within_files: bool) -> list[NewRange]:
    """The ranges of these units, in order. Raises Undefinable where a number of events is not known.

    Positions count from 1 in a file. With `within_files` (inFilePosEvtNum) pilots are told these; without, the numbers
    of the events where the file's first one is known.

    Example: 25 events in ranges of 10 are 1-10, 11-20 and 21-25; with first event 101 pilots are told 101-110, 111-120
    and 121-125.
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
        start = unit.start_event or 0
        offset = 0 if within_files or unit.first_event is None else unit.first_event - start - 1
        for number in range(n_ranges):
            first = start + number * events_per_range + 1
            last = min(start + (number + 1) * events_per_range, start + n_events)
            found.append(NewRange(unit.file_id, unit.dataset_id, number + 1, first, last, offset))
    return found
