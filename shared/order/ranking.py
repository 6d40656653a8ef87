"""The order in which shares are served (PanDA: global shares, dispatch).

executing(share) = sum of HS06 (cores x core power) of sent and running jobs; pledged(leaf) = executing of all x value
/ 100, taken relative to its siblings; the ratio executing / pledged says how far a share is from its due. At each level
of the tree children are sorted ascending by the ratio, depth first; that gives the order of the leaves. The leaf "Test"
is always first. Unused share goes to the others because the order, not a quota, decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.order.tree import Node, Siblings, below, children_of

FIRST_SHARE = "Test"
NO_PLEDGE_RATIO = 1e6


@dataclass(frozen=True, eq=False)
class Ranks:
    """Leaf shares in the order served; swapped as a whole. A share that is not listed comes last, by name."""

    order: tuple[str, ...] = ()
    places: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {name: place for place, name in enumerate(self.order)})

    def key(self, share: str) -> tuple[int, str]:
        """Sort key of a share."""
        return self.places.get(share, len(self.places)), share


@dataclass(frozen=True)
class PlacedShare:
    """A leaf with what placed it.

    That is HS06 that it uses, HS06 that its part of all that is used would be, and their ratio.
    """

    name: str
    used_hs06: float
    pledged_hs06: float
    ratio: float


def rank_shares(nodes: Sequence[Node], executing_hs06: Mapping[str, float]) -> Ranks:
    """The leaves of the tree, the furthest below its pledge first; ties by name."""
    return Ranks(tuple(leaf.name for leaf in place_shares(nodes, executing_hs06)))


def place_shares(nodes: Sequence[Node], executing_hs06: Mapping[str, float]) -> list[PlacedShare]:
    """The same with the numbers that placed each leaf.

    Example: A and B are due half each; A uses 30 HS06 and B 10. Each is pledged 20, so their ratios are 1.5 and 0.5,
    and B is first.
    """
    children = children_of(nodes)
    used = below(nodes, executing_hs06)
    pledged = sum(used.get(node.name, 0.0) for node in children.get(None, []))
    leaves = list(_leaves(None, pledged, children, used))
    leaves.sort(key=lambda leaf: leaf.name != FIRST_SHARE)  # stable: only "Test" moves
    return leaves


def _leaves(
    parent: str | None, pledged_above: float, children: Siblings, used: Mapping[str, float]
) -> Iterable[PlacedShare]:
    siblings = children.get(parent, [])
    total = sum(node.corrected for node in siblings)

    def placed(node: Node) -> PlacedShare:
        """What is due to the share of what is due to its parent, and used by pledged.

        The smaller, the more deserving.
        """
        pledge = pledged_above * node.corrected / total if total else 0.0
        used_here = used.get(node.name, 0.0)
        ratio = used_here / pledge if pledge else (NO_PLEDGE_RATIO if node.corrected == 0 else 0.0)
        return PlacedShare(node.name, used_here, pledge, ratio)

    numbers = {node.name: placed(node) for node in siblings}
    for node in sorted(siblings, key=lambda node: (numbers[node.name].ratio, -node.corrected, node.name)):
        if node.name in children:
            yield from _leaves(node.name, numbers[node.name].pledged_hs06, children, used)
        else:
            yield numbers[node.name]
