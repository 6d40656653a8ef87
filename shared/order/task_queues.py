"""The priority of every task queue, with its terms (DIRAC: Priority implementation).

    S = the group's share (JobShare, else 1000) * the group's correction
    E = S for a group with JOB_SHARING, else S / U * the user's correction   (U: its users with task queues)
    a = sum or mean of the real user priorities of the queue's jobs
    priority = max(E * a / sum of a over the queues of the entity, 0.001)

An *entity* is what has a share of its own: a group with JOB_SHARING, else one user of a group. A queue with a at most
0.1 of a group that allows background queues has 0.001 and takes nothing from the entity's other queues. Queues of an
entity that differ only in wanted or banned sites get the sum of their priorities each: a pilot sees those of its site
only. Priorities have 4 decimals.

Why E * a / sum of a: the documents divide E by the number of queues and by the sum of user priorities; taken together
the entity would lose its share, so only the second is applied. Equal sums give E / N each, as the documents say.

Example: a group of share 1000 with JOB_SHARING has two queues whose jobs' user priorities sum to 3 and 1: 750 and 250.
Without JOB_SHARING and with one queue of each of two users: 500 and 500.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from shared.order.identity import REAL_PRIORITIES, SETS, TaskQueueIdentity

DEFAULT_JOB_SHARE = 1000.0
LEAST_PRIORITY = 0.001
BACKGROUND_AT_MOST = 0.1
DECIMALS = 4

Consolidation = Literal["sum", "average"]
GroupName = tuple[str, str]
"""VO and name of a group: names are unique in a VO only."""
Entity = tuple[str, str, str]
"""VO, group, user; the user is "" for a group with JOB_SHARING."""


@dataclass(frozen=True)
class GroupProperties:
    """What a group of users is due, and how it is divided.

    The defaults are those of a group that nobody described.
    """

    job_share: float = DEFAULT_JOB_SHARE
    job_sharing: bool = False
    allows_background: bool = False


@dataclass(frozen=True)
class Corrections:
    """Factors of what was run before, by (VO, group) and by (VO, group, user); 1 where none is named.

    `within_shares`, by (share, user), multiplies the priority of a task queue where it is drawn in a leaf.
    """

    of_groups: Mapping[GroupName, float] = field(default_factory=dict)
    of_users: Mapping[Entity, float] = field(default_factory=dict)
    within_shares: Mapping[tuple[str, str], float] = field(default_factory=dict)


class WaitingQueue(NamedTuple):
    """A task queue and how many of its waiting jobs have each class of user priority."""

    task_queue_id: int
    identity: TaskQueueIdentity
    n_jobs: Mapping[int, int]


class TaskQueuePriority(NamedTuple):
    """A priority and the terms it is made of.

    `alone`: what it would be without the queues that differ from it in sites only, `n_alike` of them with itself.
    """

    task_queue_id: int
    identity: TaskQueueIdentity
    priority: float
    group_share: float
    group_correction: float
    n_users: int
    user_correction: float
    entity_share: float
    n_jobs: int
    user_priority: float
    sum_user_priority: float
    is_background: bool
    alone: float
    n_alike: int


def described(one: TaskQueuePriority) -> dict[str, Any]:
    """A priority with its terms and the identity of its task queue, as people and programs read it."""
    identity = one.identity
    row = {"vo": identity.vo, "user_group": identity.user_group, "user_name": identity.user_name}
    row |= {name: value for name, value in one._asdict().items() if name != "identity"}
    return row | {"cpu_segment_s": identity.cpu_segment_s} | {name: list(getattr(identity, name)) for name in SETS}


NO_PROPERTIES = GroupProperties()
NO_CORRECTIONS = Corrections()


def consolidated(n_jobs: Mapping[int, int], how: Consolidation) -> float:
    """One number of the user priorities of a queue's jobs: sum or mean; 0 without jobs.

    `n_jobs`: by class of user priority. Example: two jobs of 1 and one of 4 have the sum 6 and the mean 2.
    """
    total, count = 0.0, 0
    for one, n in n_jobs.items():
        total += REAL_PRIORITIES[one] * n
        count += n
    return total if how == "sum" or not count else total / count


def prioritised(
    queues: Iterable[WaitingQueue],
    groups: Mapping[GroupName, GroupProperties],
    *,
    consolidation: Consolidation = "sum",
    corrections: Corrections = NO_CORRECTIONS,
) -> Iterator[TaskQueuePriority]:
    """The priority of each queue, group by group in order of their names.

    All queues of a group must be given: their number and users decide. A generator, so that a caller with many groups
    may do something else in between.
    """
    by_group: dict[GroupName, list[WaitingQueue]] = {}
    for queue in queues:
        name = queue.identity.group
        if name in by_group:
            by_group[name].append(queue)
        else:
            by_group[name] = [queue]
    for name in sorted(by_group):
        yield from _group(name, by_group[name], groups.get(name, NO_PROPERTIES), consolidation, corrections)


def _group(
    name: GroupName,
    queues: list[WaitingQueue],
    properties: GroupProperties,
    consolidation: Consolidation,
    corrections: Corrections,
) -> list[TaskQueuePriority]:
    """What the group is due, divided among its users unless it shares."""
    group_correction = corrections.of_groups.get(name, 1.0)
    share = properties.job_share * group_correction
    by_user: dict[str, list[WaitingQueue]] = {"": queues} if properties.job_sharing else {}
    if not properties.job_sharing:
        for queue in queues:
            by_user.setdefault(queue.identity.user_name, []).append(queue)
    found: list[TaskQueuePriority] = []
    for user in sorted(by_user):
        correction = 1.0 if properties.job_sharing else corrections.of_users.get((*name, user), 1.0)
        terms = (properties.job_share, group_correction, len(by_user), correction, share / len(by_user) * correction)
        found += _entity(by_user[user], terms, consolidation, properties.allows_background)
    return found


def _entity(
    queues: list[WaitingQueue],
    terms: tuple[float, float, int, float, float],
    consolidation: Consolidation,
    allows_background: bool,
) -> Iterator[TaskQueuePriority]:
    """The entity's share, divided in proportion to the user priorities of its queues.

    Written for many queues: all of them are calculated again and again.
    """
    each = [consolidated(one.n_jobs, consolidation) for one in queues]
    least = BACKGROUND_AT_MOST if allows_background else -1.0
    total = sum(a for a in each if a > least)
    scale = terms[-1] / total if total else 0.0
    alone = [max(scale * a, LEAST_PRIORITY) if a > least else LEAST_PRIORITY for a in each]
    alike: dict[str, list[float]] = {}
    for queue, priority in zip(queues, alone, strict=True):
        alike.setdefault(queue.identity.apart_from_sites, []).append(priority)
    make = TaskQueuePriority._make
    for queue, a, priority in zip(queues, each, alone, strict=True):
        same = alike[queue.identity.apart_from_sites]
        together = round(priority if len(same) == 1 else sum(same), DECIMALS)
        n_jobs = sum(queue.n_jobs.values())
        rest = (n_jobs, a, total, a <= least, priority, len(same))
        yield make((queue.task_queue_id, queue.identity, together, *terms, *rest))
