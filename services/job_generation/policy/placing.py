"""Which of the ranked queues the next jobs of a chunk go to, and what is left over.

A queue is drawn by weight and takes a run of jobs (2 scouts, 25 others); then its weight is multiplied by
(queued + 1) / (queued + new + 1). It leaves when its cap is reached. A unit that does not fit there is offered to the
others; one that fits nowhere is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.job_generation.policy.limits import limits_at, memory_refusal
from services.job_generation.policy.splitting import NoSecondaryLeft, Pool, cut_one, in_order_of_boundaries, inseparable
from services.job_generation.policy.values import JobInput, QueueFacts, Task, Unit
from shared.brokerage.draw import uniform_of, weighted_choice

RUN_OF_JOBS = 25
RUN_OF_SCOUTS = 2


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """One job's input and the queue it goes to."""

    queue: QueueFacts
    job: JobInput


@dataclass
class Placement:
    """Jobs in order of their input, units not used in their order, and why they were not."""

    jobs: list[PlacedJob] = field(default_factory=list)
    leftover: list[Unit] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class _Placing:
    """The state of one run over a chunk."""

    def __init__(
        self,
        task: Task,
        units: Sequence[Unit],
        pools: Sequence[Pool],
        queues: Sequence[QueueFacts],
        *,
        scout: bool,
        max_jobs: int,
    ) -> None:
        self.task, self.pools = task, tuple(pools)
        self.units = in_order_of_boundaries(units, task.rules)
        self.queues = {queue.key: queue for queue in queues if queue.max_jobs is None or queue.max_jobs > 0}
        self.weights = {key: queue.weight for key, queue in self.queues.items()}
        self.queued = {key: queue.n_queued for key, queue in self.queues.items()}
        self.made = dict.fromkeys(self.queues, 0)
        self.limits = {
            key: limits_at(task.needs, task.rules, queue, scout=scout, is_analysis=task.is_analysis)
            for key, queue in self.queues.items()
        }
        self.run_length = RUN_OF_SCOUTS if scout else RUN_OF_JOBS
        self.max_jobs = max_jobs
        self.position = 0
        self.refused: dict[str, str] = {}
        self.result = Placement()

    def run(self, seed: int) -> Placement:
        """Draw queues by weight and fill runs of jobs for each, until input, queues or job numbers end."""
        n_draws = 0
        while self.position < len(self.units) and len(self.result.jobs) < self.max_jobs and self.queues:
            open_weights = {key: weight for key, weight in self.weights.items() if key not in self.refused}
            key = weighted_choice(open_weights, uniform_of(seed + n_draws))
            n_draws += 1
            if key is None:
                self._leave_one()
                continue
            try:
                self._fill(key)
            except NoSecondaryLeft as shortage:
                self.result.reasons.append(shortage.reason)
                break
        self.result.leftover.extend(self.units[self.position :])
        return self.result

    def _fill(self, key: str) -> None:
        queue, new = self.queues[key], 0
        room = self.run_length if queue.max_jobs is None else min(self.run_length, queue.max_jobs - self.made[key])
        while new < room and self.position < len(self.units) and len(self.result.jobs) < self.max_jobs:
            short = memory_refusal(self.task.needs, queue, self.units[self.position].ram_mb)
            if short is not None:
                self.refused[key] = short
                break
            cut = cut_one(
                self.units, self.position, self.pools, self.limits[key], self.task.rules, self.task.needs, queue
            )
            if cut.job is None:
                self.refused[key] = cut.reason
                break
            self.result.jobs.append(PlacedJob(queue, cut.job))
            self.position, self.pools, self.refused = cut.position, cut.pools, {}
            new += 1
        self._count(key, new)

    def _count(self, key: str, new: int) -> None:
        self.made[key] += new
        self.weights[key] *= (self.queued[key] + 1) / (self.queued[key] + new + 1)
        self.queued[key] += new
        cap = self.queues[key].max_jobs
        if cap is not None and self.made[key] >= cap:
            del self.queues[key], self.weights[key]

    def _leave_one(self) -> None:
        """The unit at this position, with those that it may not be parted from, fits none of the queues."""
        unit = self.units[self.position]
        n_together = inseparable(self.units, self.position, self.task.rules)
        what = unit.lfn if n_together == 1 else f"boundary {unit.boundary_id} ({n_together} units from {unit.lfn} on)"
        why = "; ".join(f"{key}: {reason}" for key, reason in sorted(self.refused.items()))
        if len(self.result.reasons) < 5:
            self.result.reasons.append(f"{what} fits no queue ({why})")
        self.result.leftover.extend(self.units[self.position : self.position + n_together])
        self.position += n_together
        self.refused = {}


def place(
    task: Task,
    units: Sequence[Unit],
    pools: Sequence[Pool],
    queues: Sequence[QueueFacts],
    *,
    scout: bool,
    max_jobs: int,
    seed: int,
) -> Placement:
    """Cut `units` (in order) into jobs at ranked `queues`; every unit ends in one job or in `leftover`.

    The n-th draw uses the uniform number of `seed` + n.
    """
    return _Placing(task, units, pools, queues, scout=scout, max_jobs=max_jobs).run(seed)
