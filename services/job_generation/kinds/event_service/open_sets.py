"""A job set that is worked on, and which of its jobs and tasks can still go on."""

from __future__ import annotations

from dataclasses import dataclass

from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from shared.states.job import ON_NODE, QUEUED, JobStatus

#: jobs of a set that its end takes back
TAKEN_BACK: tuple[JobStatus, ...] = (*QUEUED, *ON_NODE, "holding")
#: a task in one of these states makes no jobs any more
NO_MORE_JOBS = frozenset({"toabort", "aborting", "aborted", "tobroken", "broken", "finished", "failed", "done"})


@dataclass
class Open:
    """A set that is worked on: its row, and those of its jobs that were not counted."""

    row: JobSet
    members: dict[int, Member]
