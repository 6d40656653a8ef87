"""What a brokerage plugin is.

Found by entry point: group `orrery.job_brokerage` or `orrery.task_brokerage`.

Names are `<vo>.<label>`, with the fall-backs `<vo>.any`, `any.<label>`, `any.any`. The entry point is a class without
arguments; its methods are pure: everything they read is an argument, everything they decide is in the decision.
"""

from __future__ import annotations

from typing import Protocol

from shared.brokerage.decision import Decision
from shared.brokerage.nucleus import TaskRequest
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World

JOB_BROKERAGE = "orrery.job_brokerage"
TASK_BROKERAGE = "orrery.task_brokerage"


class JobBrokerage(Protocol):
    """Chooses queues for a chunk."""

    name: str

    def decide(self, world: World, request: JobRequest, seed: int) -> Decision:
        """Ranked candidates, or none and when to look again; why every other queue was left out."""
        ...


class TaskBrokerage(Protocol):
    """Chooses a nucleus for a task."""

    name: str

    def decide(self, world: World, request: TaskRequest, seed: int) -> Decision:
        """One nucleus drawn by weight, or none and when to look again; why every other nucleus was left out."""
        ...
