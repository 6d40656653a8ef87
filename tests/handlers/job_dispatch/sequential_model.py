"""What the dispatcher may answer if it did one thing after the other: interleaved calls are held against it.

Written from the protocol, not from the dispatcher's own policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from shared.states import JOB, Owner

ON_NODE = ("sent", "starting", "running")
KILLABLE = JOB.sources("cancelled", Owner.JOB_DISPATCH)
EXPIRABLE = JOB.sources("failed", Owner.WATCHDOG)


@dataclass(frozen=True)
class Acquire:
    pilot: str
    replica: int
    key: str | None


@dataclass(frozen=True)
class Reported:
    pilot: str
    replica: int
    place: int
    status: str
    attempt: int | None


@dataclass(frozen=True)
class Change:
    """A person kills a job, the watchdog gives it up, or a waiting job gets another priority."""

    what: Literal["kill", "time out", "priority"]
    place: int
    priority: int = 0


Operation = Acquire | Reported | Change


@dataclass(frozen=True)
class ModelJob:
    status: str = "activated"
    priority: int = 100
    holder: str | None = None
    was_reported: bool = False


@dataclass
class Model:
    """Jobs by id, and which job each key of each pilot got."""

    jobs: dict[int, ModelJob]
    by_key: dict[tuple[str, str], int] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(dict(self.jobs), dict(self.by_key))

    def ids(self) -> list[int]:
        return list(self.jobs)

    def waiting(self) -> list[int]:
        """Those that can be given, the best first."""
        found = [job_id for job_id, job in self.jobs.items() if job.status == "activated"]
        return sorted(found, key=lambda job_id: (-self.jobs[job_id].priority, job_id))

    def allows(self, operation: Operation, answer: Any, *, alone: bool) -> bool:
        """Whether this may be the answer now; what it changes is then noted.

        An operation that is not `alone` may have met a row that another one held: then a worse job, or none, is right.
        """
        if isinstance(operation, Acquire):
            return self._acquired(operation, answer, alone)
        if isinstance(operation, Reported):
            return answer == self._told(operation)
        if operation.what == "time out" and not answer and not alone:
            return True  # a job whose row another one holds is passed over
        return bool(answer == self._changed(operation))

    def _acquired(self, one: Acquire, job_id: int | None, alone: bool) -> bool:
        held = self.by_key.get((one.pilot, one.key)) if one.key else None
        if held is not None and self.jobs[held].status in ON_NODE:
            return job_id == held
        waiting = self.waiting()
        if job_id is None:
            return not waiting or not alone
        if job_id not in waiting or (alone and job_id != waiting[0]):
            return False
        if held is not None:  # the key is free again: nothing is known any more of who had its job
            self.jobs[held] = replace(self.jobs[held], holder=None)
        self.jobs[job_id] = replace(self.jobs[job_id], status="sent", holder=one.pilot)
        if one.key:
            self.by_key[one.pilot, one.key] = job_id
        return True

    def _told(self, one: Reported) -> str:
        job_id = self.ids()[one.place % len(self.jobs)]
        job = self.jobs[job_id]
        if job.holder is not None and job.holder != one.pilot:
            return "refused: tobekilled"
        is_ours = one.attempt in (None, 1)
        if job.status not in ON_NODE:
            return "alreadydone" if is_ours and job.was_reported else "tobekilled"
        if not is_ours:
            return "tobekilled"
        if one.status in ("finished", "failed"):
            ended = "holding" if one.status == "finished" else "failed"
            self.jobs[job_id] = replace(job, status=ended, was_reported=True)
        elif one.status == "running" or job.status == "sent":
            self.jobs[job_id] = replace(job, status=one.status)
        return "NULL"

    def _changed(self, one: Change) -> bool:
        job_id = self.ids()[one.place % len(self.jobs)]
        job = self.jobs[job_id]
        if one.what == "priority":
            if job.status != "activated" or job.priority == one.priority:
                return False
            self.jobs[job_id] = replace(job, priority=one.priority)
            return True
        if job.status not in (KILLABLE if one.what == "kill" else EXPIRABLE):
            return False
        self.jobs[job_id] = replace(job, status="cancelled" if one.what == "kill" else "failed")
        return True
