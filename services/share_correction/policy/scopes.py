"""What is corrected against each other: the shares of a VO, or its groups of users.

Source: DIRAC, Dynamic share corrections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from services.share_correction.policy.found import FoundCorrection
from services.share_correction.policy.plugin import ShareCorrector
from services.share_correction.policy.slices import UsageRow, usage_of
from services.share_correction.policy.virtual_organisations import EVERY_VO
from shared.order.configuration import Instance
from shared.order.tree import Node
from shared.order.wms_history import Correction


@dataclass(frozen=True)
class GroupOfUsers:
    """A group that has task queues: what it is due, and who has them.

    `is_shared`: its users have no part each.
    """

    vo: str
    name: str
    job_share: float
    is_shared: bool
    users: tuple[str, ...]


@dataclass(frozen=True)
class Scope:
    """Entities of one VO with their usage; `users`: of those entities that are divided among users."""

    vo: str
    kind: Literal["share", "group"]
    nodes: Sequence[Node]
    rows: Sequence[UsageRow]
    users: Mapping[str, Collection[str]]

    def of(self, row: UsageRow) -> str:
        """The entity that a row of usage is of."""
        return row.gshare if self.kind == "share" else row.working_group


def scope_of_shares(
    vo: str, nodes: Sequence[Node], rows: Iterable[UsageRow], users: Mapping[str, Collection[str]]
) -> Scope:
    """The shares of a VO.

    With a configuration of its own what this VO used counts, else what everybody used.
    """
    own = [row for row in rows if vo in (EVERY_VO, row.vo)]
    return Scope(vo, "share", nodes, own, {node.name: users.get(node.name, ()) for node in nodes})


def scopes_of_groups(groups: Iterable[GroupOfUsers], rows: Sequence[UsageRow]) -> list[Scope]:
    """The groups of each VO against each other; jobs without a group belong to none."""
    by_vo: dict[str, list[GroupOfUsers]] = {}
    for group in groups:
        if group.name:
            by_vo.setdefault(group.vo, []).append(group)
    return [
        Scope(
            vo,
            "group",
            [Node(group.name, group.job_share) for group in some],
            [row for row in rows if row.vo == vo],
            {group.name: group.users for group in some if not group.is_shared},
        )
        for vo, some in sorted(by_vo.items())
    ]


def corrections_in(scope: Scope, corrector: ShareCorrector, instance: Instance) -> Iterator[FoundCorrection]:
    """What one instance says of a scope.

    Of its entities, or of the users of the one that it names as Group; in a group of users they are those who have task
    queues now (DIRAC: Priority implementation).
    """
    spans = [part.time_span_s for part in instance.slices]
    if instance.group is None:
        usage = usage_of(scope.rows, spans, scope.of)
        for name, correction in corrector.correct_shares(scope.nodes, usage, instance).items():
            yield _found(scope, corrector, instance, name, "", correction)
    elif instance.group in scope.users:
        rows = [row for row in scope.rows if scope.of(row) == instance.group]
        usage = usage_of(rows, spans, lambda row: row.user_name)
        users = {*scope.users[instance.group]}
        if scope.kind == "share":  # which has no task queues: whoever used it has a part
            users |= {user for one in usage for user in one}
        for user, correction in corrector.correct_users(sorted(users), usage, instance).items():
            yield _found(scope, corrector, instance, instance.group, user, correction)


def _found(
    scope: Scope, corrector: ShareCorrector, instance: Instance, name: str, user: str, correction: Correction
) -> FoundCorrection:
    gshare, group = (name, "") if scope.kind == "share" else ("", name)
    return FoundCorrection(scope.vo, corrector.name, instance, gshare, user, correction, group)
