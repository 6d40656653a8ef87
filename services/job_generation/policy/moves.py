"""Changes of jobs' states, counted for the statistics that are folded from events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from shared.events import JobMove
from shared.states.job import JobStatus

JOBS_OF_EVENT = 500
T = TypeVar("T")


class Moved(Protocol):
    """What a move needs of a job."""

    @property
    def job_id(self) -> int: ...
    @property
    def queue(self) -> str: ...
    @property
    def resource_type(self) -> str: ...
    @property
    def core_count(self) -> int: ...


def moves_of(
    jobs: Iterable[Moved],
    *,
    task_id: int,
    gshare: str,
    user_name: str,
    from_status: JobStatus | None,
    to_status: JobStatus,
) -> tuple[JobMove, ...]:
    """Jobs of one task that went the same way, counted by queue and resource type."""
    n_jobs: Counter[tuple[str, str]] = Counter()
    n_cores: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        n_jobs[job.queue, job.resource_type] += 1
        n_cores[job.queue, job.resource_type] += job.core_count
    return tuple(
        JobMove(
            task_id=task_id,
            queue=queue,
            resource_type=resource_type,
            gshare=gshare,
            user_name=user_name,
            from_status=from_status,
            to_status=to_status,
            n_jobs=n_jobs[queue, resource_type],
            n_cores=n_cores[queue, resource_type],
        )
        for queue, resource_type in sorted(n_jobs)
    )


def batches(items: Sequence[T], size: int = JOBS_OF_EVENT) -> Iterator[Sequence[T]]:
    """The items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
