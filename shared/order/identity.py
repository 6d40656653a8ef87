"""What makes two jobs members of one task queue (DIRAC: Priority implementation, task queue identity)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

#: the sets of values of an identity
SETS = ("sites", "banned_sites", "platforms", "tags", "job_types")
LOWEST_CLASS, HIGHEST_CLASS = 0, 10
#: the CPU segment of a task queue that is not divided by time
OF_OWNER_S = 0
#: by class
REAL_PRIORITIES = (1e-5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1e6)


def as_set(values: Collection[str] | None) -> tuple[str, ...]:
    """Values in one order and each once, so that equal sets are equal."""
    return tuple(sorted(set(values or ())))


@dataclass(frozen=True)
class TaskQueueIdentity:
    """Jobs with equal values wait in one task queue.

    `cpu_segment_s`: CPU time of its jobs at most, rounded up. An empty set of sites, platforms or job types means any;
    `banned_sites` are sites it must not run at; `tags` are what a pilot must offer, all of them. Sets are as `as_set`
    makes them.
    """

    vo: str
    user_name: str
    user_group: str
    cpu_segment_s: int = 360
    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> TaskQueueIdentity:
        """From a row with these names; other names are left alone."""
        return cls(
            row["vo"],
            row["user_name"],
            row["user_group"],
            row["cpu_segment_s"],
            *(as_set(row[name]) for name in SETS),
        )

    @property
    def is_of_owner(self) -> bool:
        """Whether all jobs of an owner are in it, whatever they need."""
        return self.cpu_segment_s == OF_OWNER_S

    @cached_property
    def digest(self) -> str:
        """A name of fixed length for the identity, however long its lists are."""
        listed = [self.vo, self.user_name, self.user_group, self.cpu_segment_s, *(getattr(self, name) for name in SETS)]
        return hashlib.blake2b(orjson.dumps(listed), digest_size=16).hexdigest()

    @cached_property
    def group(self) -> tuple[str, str]:
        """VO and name of the group: names are unique in a VO only."""
        return self.vo, self.user_group

    @cached_property
    def apart_from_sites(self) -> str:
        """All but wanted and banned sites, as a text: it is compared for every task queue, again and again."""
        return repr((self.vo, self.user_name, self.user_group, self.cpu_segment_s, self.platforms, self.tags,
                     self.job_types))  # fmt: skip


#: a task queue, and the user priority of its jobs
OrderFacts = tuple[TaskQueueIdentity, int]


def of_owner(vo: str, user_name: str) -> TaskQueueIdentity:
    """The task queue of all jobs of an owner, for a share that is divided among users."""
    return TaskQueueIdentity(vo, user_name, "", OF_OWNER_S)


def priority_class(user_priority: int) -> int:
    """The class of a job's user priority: those at and below 0 are one, and those at and above 10."""
    return min(max(user_priority, LOWEST_CLASS), HIGHEST_CLASS)


def real_priority(user_priority: int) -> float:
    """What a user priority counts.

    Itself from 1 to 9, next to nothing from 0 down, more than all others from 10 up.

    Example: 0 and -5 count 0.00001, 3 counts 3, 10 and 12 count 1 000 000.
    """
    return REAL_PRIORITIES[priority_class(user_priority)]
