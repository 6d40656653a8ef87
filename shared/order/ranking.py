"""The order in which shares are served (PanDA: global shares, dispatch; JEDI: shares of work queues).

executing(share) = sum of HS06 (cores x core power) of sent and running jobs; pledged(share) = executing of all x value
/ 100, taken relative to its siblings; the ratio executing / pledged says how far a share is from its due. At each level
of the tree children are sorted ascending by the ratio, depth first; that gives the order of the leaves. The leaf "Test"
is always first.

What siblings without waiting jobs do not use of their pledge is added to the pledges of the others in proportion to
their values: of the stretchable ones if there are any that have waiting jobs, else of all that have. More than that
needs no rule: the order, not a quota, decides, so that nothing is left unused while anybody has jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.order.tree import Node, Siblings, below, children_of

FIRST_SHARE = "Test"
NO_PLEDGE_RATIO = 1e6


@dataclass(frozen=True, eq=False)
class Ranks:
    """Leaf shares in the order served; swapped as a whole. A share that is not listed comes last, by name.

    `not_above_due`: those that use no more than they are due.
    """

    order: tuple[str, ...] = ()
    not_above_due: frozenset[str] = frozenset()
    places: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {name: place for place, name in enumerate(self.order)})

    def key(self, share: str) -> tuple[int, str]:
        """Sort key of a share."""
        return self.places.get(share, len(self.places)), share


@dataclass(frozen=True)
class PlacedShare:
    """A share with what placed it among its siblings, in HS06.

    `pledged`: its part of what is used here; `received`: what siblings leave it; `ratio`: used by both together.
    `n_queued`: jobs that wait in it.
    """

    name: str
    parent: str | None
    is_leaf: bool
    used_hs06: float
    pledged_hs06: float
    received_hs06: float
    ratio: float
    n_queued: int


def rank_shares(nodes: Sequence[Node], executing_hs06: Mapping[str, float], n_queued: Mapping[str, int]) -> Ranks:
    """The leaves of the tree, the furthest below its pledge first; ties by value, then by name."""
    leaves = [one for one in place_shares(nodes, executing_hs06, n_queued) if one.is_leaf]
    return Ranks(tuple(one.name for one in leaves), frozenset(one.name for one in leaves if one.ratio <= 1.0))


def place_shares(
    nodes: Sequence[Node], executing_hs06: Mapping[str, float], n_queued: Mapping[str, int]
) -> list[PlacedShare]:
    """All shares in the order served, each before those below it, with the numbers that placed them.

    `n_queued`: waiting jobs by leaf. Example: A, B and C are due a third each; A uses 30
    HS06, B 15 and C none. Each is pledged 15, so their ratios are 2, 1 and 0: C is first, then B. Without waiting jobs
    in C its 15 go to A and B, 7.5 each: ratios 1.33 and 0.67.
    """
    children = children_of(nodes)
    used = below(nodes, executing_hs06)
    queued = below(nodes, n_queued)
    pledged = sum(used.get(node.name, 0.0) for node in children.get(None, []))
    placed = list(_placed(None, pledged, children, used, queued))
    placed.sort(key=lambda one: one.name != FIRST_SHARE or not one.is_leaf)  # stable: only "Test" moves
    return placed


def _placed(
    parent: str | None,
    available: float,
    children: Siblings,
    used: Mapping[str, float],
    queued: Mapping[str, float],
) -> Iterator[PlacedShare]:
    siblings = children.get(parent, [])
    total = sum(node.corrected for node in siblings)
    pledged = {node.name: available * node.corrected / total if total else 0.0 for node in siblings}
    received = _received(siblings, pledged, used, queued)
    found = {}
    for node in siblings:
        due = pledged[node.name] + received.get(node.name, 0.0)
        used_here = used.get(node.name, 0.0)
        found[node.name] = PlacedShare(
            node.name,
            parent,
            node.name not in children,
            used_here,
            pledged[node.name],
            received.get(node.name, 0.0),
            used_here / due if due else (NO_PLEDGE_RATIO if node.corrected == 0 else 0.0),
            int(queued.get(node.name, 0)),
        )
    for node in sorted(siblings, key=lambda node: (found[node.name].ratio, -node.corrected, node.name)):
        here = found[node.name]
        yield here
        if not here.is_leaf:
            yield from _placed(node.name, here.pledged_hs06 + here.received_hs06, children, used, queued)


def _received(
    siblings: Sequence[Node],
    pledged: Mapping[str, float],
    used: Mapping[str, float],
    queued: Mapping[str, float],
) -> dict[str, float]:
    """What siblings without waiting jobs leave to the others."""
    active = [node for node in siblings if queued.get(node.name)]
    receivers = [node for node in active if node.is_stretchable] or active
    total = sum(node.corrected for node in receivers)
    left = sum(
        max(0.0, pledged[node.name] - used.get(node.name, 0.0)) for node in siblings if not queued.get(node.name)
    )
    return {node.name: left * node.corrected / total for node in receivers} if total and left else {}
