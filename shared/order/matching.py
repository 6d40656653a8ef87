"""Which task queues a pilot may take jobs of (DIRAC: matching).

All jobs of a task queue fit an offer or none does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from shared.order.identity import SETS, TaskQueueIdentity

ANY = "any"
MB_OF_TAG = 1000
MOST_GB_TAGS = MOST_PROCESSOR_TAGS = 1024
TEST_JOBS = "Test"
#: what of a task queue did not match
Condition = Literal[
    "owner", "cpu_time", "site", "banned_site", "platform", "job_type", "tags", "required_tags", "banned"
]
#: fields of a task queue that a pilot may refuse values of
BANNABLE = ("vo", "user_name", "user_group", *SETS)


@dataclass(frozen=True)
class TaskQueueOffer:
    """What a pilot offers, as far as task queues ask; what it does not say is not compared.

    `sites`: the names of the place it runs at. `user_name` and `user_group`: whose pilot it is, where it takes jobs of
    these only; `groups_sharing`: groups with JOB_SHARING by (VO, name), whose pilots take jobs of any of its users.
    `banned`: by field, what it does not take. `tags` are as `offered_tags` completes them.
    """

    sites: frozenset[str] = frozenset()
    cpu_time_s: int | None = None
    platform: str | None = None
    job_type: str | None = None
    tags: frozenset[str] = frozenset()
    required_tags: frozenset[str] = frozenset()
    user_name: str | None = None
    user_group: str | None = None
    vo: str | None = None
    banned: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Unmatched:
    """The condition that does not hold, and a sentence with both values."""

    condition: Condition
    reason: str


def offered_tags(
    tags: Collection[str] = (), *, max_ram_mb: int = 0, n_processors: int = 0, whole_node: bool = False
) -> frozenset[str]:
    """The tags of an offer, completed from its memory and processors.

    Memory gives 2GB to nGB (n = MB / 1000, at most 1024), processors 2Processors to nProcessors and MultiProcessor, a
    whole node WholeNode. Example: 4500 MB and 2 processors give 2GB, 3GB, 4GB, 2Processors, MultiProcessor.
    """
    found = set(tags)
    found.update(f"{n}GB" for n in range(2, min(max_ram_mb // MB_OF_TAG, MOST_GB_TAGS) + 1))
    found.update(f"{n}Processors" for n in range(2, min(n_processors, MOST_PROCESSOR_TAGS) + 1))
    if n_processors > 1:
        found.add("MultiProcessor")
    if whole_node:
        found.add("WholeNode")
    return frozenset(found)


def required_beyond_offered(tags: Collection[str], required: Collection[str]) -> tuple[str, ...]:
    """Required tags that the offer itself does not have.

    Such an offer is an error, as nothing could match it.
    """
    return tuple(sorted(set(required) - set(tags)))


def unmatched(queue: TaskQueueIdentity, offer: TaskQueueOffer, *, job_sharing: bool = False) -> Unmatched | None:
    """Why jobs of the task queue may not go to the pilot; None if they may.

    `job_sharing`: of the queue's group. Owner and group of a user's pilot must be the queue's, for a group with
    JOB_SHARING the group alone. CPU time of the queue at most what is offered. A list of sites, platforms or job types
    is empty or has the offered value ("Any" or nothing offered: not compared). The site is not banned. Every tag of the
    queue is offered, and the queue has every tag that the pilot requires. Of a queue of all jobs of an owner the owner
    counts alone.
    """
    if offer.vo is not None and queue.vo != offer.vo:
        return Unmatched("owner", f"jobs of VO {queue.vo}, the pilot takes {offer.vo}")
    if offer.user_group is not None and queue.user_group != offer.user_group:
        return Unmatched("owner", f"jobs of group {queue.user_group or 'none'}, the pilot takes {offer.user_group}")
    if offer.user_name is not None and queue.user_name != offer.user_name and not (job_sharing and offer.user_group):
        return Unmatched("owner", f"jobs of {queue.user_name}, the pilot takes those of {offer.user_name}")
    if queue.is_of_owner:
        return None
    if offer.cpu_time_s is not None and queue.cpu_segment_s > offer.cpu_time_s:
        return Unmatched("cpu_time", f"CPU time {queue.cpu_segment_s} s, the pilot has {offer.cpu_time_s} s")
    return _place(queue, offer) or _tags(queue, offer) or _banned(queue, offer)


def _place(queue: TaskQueueIdentity, offer: TaskQueueOffer) -> Unmatched | None:
    if queue.sites and offer.sites and not offer.sites.intersection(queue.sites):
        return Unmatched("site", f"only for {', '.join(queue.sites[:3])}")
    if queue.banned_sites and not offer.sites.isdisjoint(queue.banned_sites):
        return Unmatched("banned_site", f"{', '.join(sorted(offer.sites.intersection(queue.banned_sites)))} is banned")
    if not _lists(queue.platforms, offer.platform):
        return Unmatched("platform", f"platform {', '.join(queue.platforms)}, the pilot has {offer.platform}")
    if not _lists(queue.job_types, offer.job_type):
        return Unmatched("job_type", f"job type {', '.join(queue.job_types)}, the pilot takes {offer.job_type}")
    return None


def _lists(wanted: Collection[str], offered: str | None) -> bool:
    return not wanted or offered is None or offered.lower() == ANY or offered in wanted


def _tags(queue: TaskQueueIdentity, offer: TaskQueueOffer) -> Unmatched | None:
    if queue.tags and not offer.tags.issuperset(queue.tags):
        missing = ", ".join(sorted(set(queue.tags) - offer.tags))
        return Unmatched("tags", f"tags {missing} are not offered")
    if not offer.required_tags.issubset(queue.tags):
        missing = ", ".join(sorted(offer.required_tags.difference(queue.tags)))
        return Unmatched("required_tags", f"the pilot takes only jobs with tags {missing}")
    return None


def _banned(queue: TaskQueueIdentity, offer: TaskQueueOffer) -> Unmatched | None:
    for name, value in sorted(offer.banned):
        found = getattr(queue, name)
        if value == found or (isinstance(found, tuple) and value in found):
            return Unmatched("banned", f"the pilot takes no jobs with {name} {value}")
    return None
