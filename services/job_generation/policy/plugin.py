"""What a VO may replace in job generation: how a chunk is cut, and what its jobs are.

Found by entry point `orrery.job_generation` under `<vo>.<label>`, then `<vo>.any`, `any.<label>`, `any.any`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from services.job_generation.policy.building import Builder, BuildRequest, NewJob
from services.job_generation.policy.placing import Placement, place
from services.job_generation.policy.secondary import Pool
from services.job_generation.policy.values import QueueFacts, Task, Unit


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


@runtime_checkable
class JobGeneration(Protocol):
    """Pure: the same request and seed give the same jobs.

    Every unit ends in one job or in the leftover, in order.
    """

    name: str

    def split(self, request: SplitRequest, seed: int) -> Placement:
        """Cut the chunk; `seed` decides every draw."""
        ...

    def build(self, request: BuildRequest) -> list[NewJob]:
        """One job for each placed input, with the ids and serial numbers of the request."""
        ...


class GreedyGeneration:
    """The field's generation: greedy splitting, and a weighted draw among the ranked queues.

    Splitting follows the task's rules and the queue's limits.
    """

    name = "greedy"

    def split(self, request: SplitRequest, seed: int) -> Placement:
        """Place the input on the queues, greedily; the same seed places the same."""
        return place(
            request.task,
            request.units,
            request.pools,
            request.queues,
            scout=request.is_scout,
            max_jobs=request.max_jobs,
            seed=seed,
            more_follows=request.more_follows,
        )

    def build(self, request: BuildRequest) -> list[NewJob]:
        """The jobs of placed input with their files and command lines."""
        return Builder(request).build()
