"""Who else works on the events of job sets, beside the jobs of these sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from services.job_generation.kinds.event_service.job import OfJobSet
from services.job_generation.kinds.event_service.store.job_set_ranges import HeldRange
from services.job_generation.kinds.event_service.store.job_sets import JobSet, Member
from services.job_generation.policy.values import QueueFacts, Task
from services.job_generation.steps.doors import Kinds
from services.job_generation.store.results import EndedJob
from shared.db.unit_of_work import UnitOfWork


class StandIns(NamedTuple):
    """Queues whose jobs process the events of a set meanwhile, and why it has no job of its own."""

    queues: Sequence[QueueFacts]
    reason: str


class BesideSets:
    """What the event service asks a kind that works beside its jobs; here, as if there was none."""

    def why_it_waits(self, task: Task, kind: OfJobSet, queues: Sequence[QueueFacts]) -> str | None:
        """Say why a job of a set gets none of these ranked queues; None: it goes to one of them."""
        return None

    async def stand_ins(
        self, work: UnitOfWork, task: Task, one: JobSet, live: Sequence[Member], reason: str
    ) -> StandIns | None:
        """Find where the events of a set without a queue are processed; None: nowhere.

        `reason`: why no queue is left, `live`: its jobs that go on.
        """
        return None

    async def wait(self, work: UnitOfWork, task: Task, set_ids: Sequence[int], reason: str) -> None:
        """Ask later for queues for sets whose jobs have none."""

    async def sets_of(self, work: UnitOfWork, task: Task, jobs: Sequence[EndedJob]) -> Sequence[int]:
        """Sets whose events these jobs, which are in no set, have or had."""
        return ()

    async def processed(self, work: UnitOfWork, task: Task, set_id: int) -> Sequence[HeldRange]:
        """Ranges of a set that were processed beside its jobs and are not done, locked."""
        return ()

    async def changed(self, work: UnitOfWork, task: Task, set_ids: Sequence[int]) -> None:
        """Note what follows from the jobs that these sets have now."""


class ServesSets:
    """A kind that makes jobs for sets, or beside them, where these went on waiting."""


NOBODY = BesideSets()


def beside(kinds: Kinds) -> BesideSets:
    """The kind that works beside job sets, if there is one."""
    return next((one for one in kinds if isinstance(one, BesideSets)), NOBODY)
