"""The order in which shares are served (PanDA: global shares, dispatch).

executing(share) = sum of HS06 (cores x core power) of sent and running jobs; pledged(leaf) = executing of all x value
/ 100, taken relative to its siblings; the ratio executing / pledged says how far a share is from its due. At each level
of the tree children are sorted ascending by the ratio, depth first; that gives the order of the leaves. The leaf "Test"
is always first. Unused share goes to the others because the order, not a quota, decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
class CorrectedShare:
    """One node of the tree; `value` is percent among siblings, multiplied by its correction factor."""

    name: str
    value: float
    parent: str | None = None


def rank_shares(nodes: Sequence[CorrectedShare], executing_hs06: Mapping[str, float]) -> Ranks:
    """The leaves of the tree, the furthest below its pledge first; ties by name."""
    children: dict[str | None, list[CorrectedShare]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        children.setdefault(node.parent, []).append(node)
    used = _executing_below(None, children, executing_hs06)
    leaves = list(_leaves(None, sum(used.get(n.name, 0.0) for n in children.get(None, [])), children, used))
    leaves.sort(key=lambda name: name != FIRST_SHARE)  # stable: only "Test" moves
    return Ranks(tuple(leaves))


def _executing_below(
    parent: str | None, children: Mapping[str | None, list[CorrectedShare]], executing: Mapping[str, float]
) -> dict[str, float]:
    """HS06 executing at each node, its descendants included."""
    totals: dict[str, float] = {}
    for node in children.get(parent, []):
        below = _executing_below(node.name, children, executing)
        totals |= below
        direct = (below[child.name] for child in children.get(node.name, []))
        totals[node.name] = executing.get(node.name, 0.0) + sum(direct)
    return totals


def _leaves(
    parent: str | None,
    pledged_above: float,
    children: Mapping[str | None, list[CorrectedShare]],
    used: Mapping[str, float],
) -> Iterable[str]:
    siblings = children.get(parent, [])
    total = sum(node.value for node in siblings)

    def pledge(node: CorrectedShare) -> float:
        """What is due to the share of what is due to its parent."""
        return pledged_above * node.value / total if total else 0.0

    def ratio(node: CorrectedShare) -> float:
        """Used by pledged: the smaller, the more deserving."""
        return used[node.name] / pledge(node) if pledge(node) else (NO_PLEDGE_RATIO if node.value == 0 else 0.0)

    for node in sorted(siblings, key=lambda node: (ratio(node), -node.value, node.name)):
        if node.name in children:
            yield from _leaves(node.name, pledge(node), children, used)
        else:
            yield node.name
