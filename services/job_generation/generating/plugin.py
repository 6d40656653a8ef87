"""What a VO may replace in job generation: how chunks are cut, what is merged, what the jobs are.

Found by entry point `orrery.job_generation` under `<vo>.<label>`, then `<vo>.any`, `any.<label>`, `any.any`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from services.job_generation.policy.merging import Producer, groups
from services.job_generation.policy.values import QueueFacts, Task, Unit
from services.job_generation.specification.building import Builder, BuildRequest, NewJob
from services.job_generation.specification.job_xml import DescribedBuilder, WholeJobs, whole_jobs, xml_of
from services.job_generation.splitting.placement import Placement
from services.job_generation.splitting.placing import place
from services.job_generation.splitting.secondary import Pool


@dataclass(frozen=True)
class SplitRequest:
    """One chunk to split: master units in order, open secondary units, ranked queues, maximum of jobs.

    `more_follows`: the task has more unused input of this kind after the chunk.
    """

    task: Task
    units: Sequence[Unit]
    pools: Sequence[Pool]
    queues: Sequence[QueueFacts]
    is_scout: bool
    max_jobs: int
    more_follows: bool = False


@dataclass(frozen=True)
class MergeRequest:
    """Jobs of one task at one queue whose outputs wait to be merged, the oldest first.

    `is_complete`: no more outputs will come there, so that the last merge job may be small.
    """

    task: Task
    producers: Sequence[Producer]
    is_complete: bool


@runtime_checkable
class JobGeneration(Protocol):
    """Pure: the same request and seed give the same jobs.

    Every unit ends in one job or in the leftover, in order.
    """

    name: str

    def split(self, request: SplitRequest, seed: int) -> Placement:
        """Cut the chunk; `seed` decides every draw."""
        ...

    def merge_groups(self, request: MergeRequest) -> list[tuple[Producer, ...]]:
        """What each merge job reads; a producer is in one group at most, and one that is in none waits."""
        ...

    def build(self, request: BuildRequest) -> list[NewJob]:
        """One job for each placed input, with the ids and serial numbers of the request; merge jobs, too."""
        ...


class GreedyGeneration:
    """The field's generation: greedy splitting, and a weighted draw among the ranked queues.

    Splitting follows the task's rules and the queue's limits.
    """

    name = "greedy"

    def split(self, request: SplitRequest, seed: int) -> Placement:
        """Place the input on the queues, greedily; the same seed places the same.

        Jobs that are described are made when all their files are there.
        """
        described = xml_of(request.task)
        whole = WholeJobs(request.units) if described is None else whole_jobs(described, request.units, request.pools)
        placement = place(
            request.task,
            whole.units,
            request.pools,
            request.queues,
            scout=request.is_scout,
            max_jobs=request.max_jobs,
            seed=seed,
            more_follows=request.more_follows,
        )
        placement.leftover.extend(whole.waiting)
        for reason in whole.reasons:
            placement.note(reason)
        return placement

    def merge_groups(self, request: MergeRequest) -> list[tuple[Producer, ...]]:
        """As many outputs in each as the rules of the task allow (JEDI: Output merging)."""
        return groups(request.producers, request.task.rules, complete=request.is_complete)

    def build(self, request: BuildRequest) -> list[NewJob]:
        """The jobs of placed input with their files and command lines."""
        reads_input = "normal" in request.kind.lines
        is_described = reads_input and xml_of(request.task) is not None
        builder = DescribedBuilder if is_described else Builder
        return builder(request).build()
