"""Priorities of task queues that come between two calculations (DIRAC: Priority implementation).

The queues of an entity divide what it is due, so a new one changes the priority of each. Among very many it changes
each by next to nothing: then it alone gets a priority, in proportion to what the others have, and they keep theirs
until the next calculation. An entity may get `GROWTH` more than it is due that way, no more. What a queue gets of those
that differ in sites only it gets with the next calculation, too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.order.task_queues import (
    BACKGROUND_AT_MOST,
    DECIMALS,
    LEAST_PRIORITY,
    NO_PROPERTIES,
    Consolidation,
    Corrections,
    Entity,
    GroupName,
    GroupProperties,
    TaskQueuePriority,
    WaitingQueue,
    consolidated,
)

#: by how much the sum of user priorities of an entity, or the users of a group, may grow without a calculation
GROWTH = 0.01


@dataclass(frozen=True)
class _Divided:
    """What was divided among so many (queues by their user priorities, or users), and how much came since."""

    due: float
    among: float
    came: float = 0.0

    def grown(self, by: float) -> _Divided | None:
        """With so much more; None where that is too much."""
        came = self.came + by
        return _Divided(self.due, self.among, came) if came <= GROWTH * self.among else None


class NewTaskQueues:
    """Remembers what the last calculation of each group divided."""

    def __init__(self) -> None:
        self._entities: dict[Entity, _Divided] = {}
        self._groups: dict[GroupName, _Divided] = {}

    def calculated(self, found: Iterable[TaskQueuePriority], groups: Mapping[GroupName, GroupProperties]) -> None:
        """Remember groups that were calculated, of which these are at least one queue of each entity."""
        for one in found:
            group = one.identity.group
            entity = _entity(one.identity.user_name, group, groups.get(group, NO_PROPERTIES))
            self._entities[entity] = _Divided(one.entity_share, one.sum_user_priority)
            self._groups[group] = _Divided(one.group_share * one.group_correction, one.n_users)

    def priced(
        self,
        group: GroupName,
        queues: Sequence[WaitingQueue],
        properties: GroupProperties,
        corrections: Corrections,
        how: Consolidation,
    ) -> dict[int, float] | None:
        """Price each of these new queues of a group; None: the group has to be calculated.

        Example: the queues of a user have the user priorities 20 000 in all and share 1000. A new one whose jobs have 2
        gets 0.1; its user is served 1000.1 of 1000 until the next calculation.
        """
        least = BACKGROUND_AT_MOST if properties.allows_background else -1.0
        added: dict[Entity, float] = {}
        sums: dict[int, tuple[Entity, float]] = {}
        for queue in queues:
            entity = _entity(queue.identity.user_name, group, properties)
            a = consolidated(queue.n_jobs, how)
            sums[queue.task_queue_id] = entity, a
            added[entity] = added.get(entity, 0.0) + (a if a > least else 0.0)
        grown = self._grown(group, added, corrections)
        if grown is None:
            return None
        self._entities.update(grown)
        found = {}
        for number, (entity, a) in sums.items():
            one = grown[entity]
            share = one.due * a / one.among if a > least and one.among else 0.0
            found[number] = round(max(share, LEAST_PRIORITY), DECIMALS)
        return found

    def _grown(
        self, group: GroupName, added: Mapping[Entity, float], corrections: Corrections
    ) -> dict[Entity, _Divided] | None:
        """The entities with what they get; None where one gets too much, or too many users are new."""
        of_group = self._groups.get(group)
        found: dict[Entity, _Divided] = {}
        n_new = 0
        for entity, by in added.items():
            known = self._entities.get(entity)
            if known is None:
                n_new += 1
                due = 0.0 if of_group is None else of_group.due / of_group.among * corrections.of_users.get(entity, 1.0)
                found[entity] = _Divided(due, by)
                continue
            grown = known.grown(by)
            if grown is None:
                return None
            found[entity] = grown
        if n_new:
            of_group = None if of_group is None else of_group.grown(n_new)
            if of_group is None:
                return None
            self._groups[group] = of_group
        return found


def _entity(user_name: str, group: GroupName, properties: GroupProperties) -> Entity:
    return (*group, "" if properties.job_sharing else user_name)
