"""At which queues the jobs of a job set run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from services.job_generation.policy.queue_facts import for_other_jobs
from services.job_generation.policy.values import QueueFacts, Task
from shared.brokerage.request import HIGH_PRIORITY
from shared.model.queue import QueueStatus

#: jobseed of queues that take any event service; eshigh takes that of high priority and scouts
_SEEDS = ("es", "all")


@dataclass(frozen=True)
class QueuesOfSet:
    """Queues at which the next job of a set may run, best first, and why others cannot, by name."""

    usable: Sequence[QueueFacts]
    gone: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Why there is none."""
        return f"no ES queue: {'; '.join(self.gone.values()) or 'none was ranked'}"


def queues_of_set(
    ranked: Sequence[tuple[str, str]],
    known: Sequence[QueueFacts],
    *,
    is_high: bool,
    waited_in_vain: Collection[str] = (),
    is_search: bool = False,
) -> QueuesOfSet:
    """Which of the ranked queues (queue, resource type) can still run event service for a set.

    Gone are queues that left the grid and those whose jobseed takes no event service of this kind any more (`is_high`:
    of high priority, or of scouts): somebody decided that. Pilots of an offline or paused queue get no jobs, which may
    be a short outage: a job is made there where no other queue is left, and waits. Queues where that was done already
    until a time-out took the job back unused (`waited_in_vain`, by name) are gone as well while they are offline; at a
    paused queue jobs wait without limit of time. Jobs of a search of points (`is_search`) go to queues of any jobseed.

    Example: A and B are offline: the job waits at A; after its time there another waits at B, then there is none.
    Source: JEDI, Final status of Event Service jobs; that field's "no ES queue" names no rule, this is the one taken.
    """
    facts = {one.key: one for one in known}
    open_ones, shut, gone = list[QueueFacts](), list[QueueFacts](), dict[str, str]()
    for key in (f"{queue}/{resource_type}" for queue, resource_type in ranked):
        one = facts.get(key)
        if one is None:
            gone[key] = f"{key} is not in the grid"
        elif not (is_search or one.jobseed in _SEEDS or (one.jobseed == "eshigh" and is_high)):
            gone[key] = f"{key} takes no event service (jobseed {one.jobseed})"
        elif one.status == QueueStatus.OFFLINE and one.queue in waited_in_vain:
            gone[key] = f"{key} is offline, and a job waited for it in vain"
        elif one.status in (QueueStatus.OFFLINE, QueueStatus.PAUSED):
            shut.append(one)
        else:
            open_ones.append(one)
    return QueuesOfSet(for_other_jobs(open_ones) or for_other_jobs(shut), gone)


def one_store(stores: Sequence[int | None]) -> int | str:
    """The object store that has all files of a set (mergeEsOnOS), or why there is none.

    Example: 117 and 117: 117; 117 and 118, or 117 and a file of which it is not known: the reason.
    """
    if len(stores) == 1 and stores[0] is not None:
        return stores[0]
    known = ", ".join(str(one) for one in stores if one is not None)
    if None in stores:
        return "it is not known in which object store all of its files are"
    return f"its files are in several object stores ({known})" if known else "it has no files in an object store"


def best_at_store(ranked: Sequence[tuple[str, str]], of_store: Sequence[QueueFacts]) -> list[QueueFacts]:
    """Queues that name a store: those of the set in their order, then the ones with fewest queued jobs."""
    places = {queue: place for place, (queue, _) in reversed(list(enumerate(ranked)))}
    return sorted(of_store, key=lambda one: (places.get(one.queue, len(places)), one.n_queued, one.queue))


def has_high_priority(task: Task, *, is_scout: bool) -> bool:
    """Whether queues with jobseed eshigh take its event service."""
    return is_scout or task.priority >= HIGH_PRIORITY
