"""Counting changes of state for the events: statistics are a fold of these numbers, so they are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from services.job_dispatch.policy.reports import JobRow
from shared.events import JobMove
from shared.states.job import JobStatus

#: jobs named in one event
EVENT_SIZE = 500

T = TypeVar("T")


def moves_of(rows: Iterable[JobRow], to_status: JobStatus) -> tuple[JobMove, ...]:
    """The changes of these jobs, as they were locked, to `to_status`.

    There is one line per task, queue, share, user and former state, sorted.
    """
    jobs: Counter[tuple[int, str, str, str, str, str]] = Counter()
    cores: Counter[tuple[int, str, str, str, str, str]] = Counter()
    for row in rows:
        key = (row.task_id, row.queue, row.resource_type, row.gshare, row.user_name, row.status)
        jobs[key] += 1
        cores[key] += row.core_count
    return tuple(
        JobMove(
            task_id=key[0],
            queue=key[1],
            resource_type=key[2],
            gshare=key[3],
            user_name=key[4],
            from_status=key[5],
            to_status=to_status,
            n_jobs=jobs[key],
            n_cores=cores[key],
        )
        for key in sorted(jobs)
    )


def slices(items: Sequence[T], size: int = EVENT_SIZE) -> Iterator[Sequence[T]]:
    """A long list in pieces for one event each."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
