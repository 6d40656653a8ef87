"""Rules of task queues' priorities: what groups of users are due, factors of users, modes of VOs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import asyncpg

from services.job_dispatch.store import task_queues as store
from shared.config.parameters import Parameters
from shared.order.parameters import CONSOLIDATION, TASK_QUEUES
from shared.order.task_queues import (
    NO_PROPERTIES,
    Consolidation,
    Corrections,
    GroupName,
    GroupProperties,
    TaskQueuePriority,
    WaitingQueue,
    prioritised,
)


class OrderRules:
    """As they were read last."""

    def __init__(self, parameters: Parameters) -> None:
        self.groups: Mapping[GroupName, GroupProperties] = {}
        self.corrections = Corrections()
        self._parameters = parameters
        self._modes: Mapping[str, str] = {}

    async def read(self, connection: asyncpg.Connection) -> tuple[bool, bool]:
        """Read them again: whether groups have changed, and whether anything has."""
        groups, corrections = await store.groups_of_users(connection), await store.corrections(connection)
        modes = {vo: self._parameters.read(TASK_QUEUES, vo=vo) for vo in self._modes}
        has_other_groups = groups != self.groups
        is_changed = has_other_groups or (corrections, modes) != (self.corrections, self._modes)
        if is_changed:
            self.groups, self.corrections, self._modes = groups, corrections, modes
        return has_other_groups, is_changed

    def of_group(self, name: GroupName) -> GroupProperties:
        return self.groups.get(name, NO_PROPERTIES)

    def mode(self, vo: str) -> str:
        """How a VO uses task queues; kept, as it is asked for every key."""
        found = self._modes.get(vo)
        if found is None:
            found = self._parameters.read(TASK_QUEUES, vo=vo)
            self._modes = {**self._modes, vo: found}
        return found

    def consolidation(self, vo: str) -> Consolidation:
        """How the priorities of a task queue's jobs become one."""
        return "average" if self._parameters.read(CONSOLIDATION, vo=vo) == "average" else "sum"

    def prioritised(self, by_vo: Mapping[str, Sequence[WaitingQueue]]) -> Iterable[TaskQueuePriority]:
        """Task queues with their priorities and terms, VO by VO."""
        for vo in sorted(by_vo):
            how = self.consolidation(vo)
            yield from prioritised(by_vo[vo], self.groups, consolidation=how, corrections=self.corrections)
