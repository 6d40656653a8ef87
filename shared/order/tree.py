"""The tree of shares: what is due to each node, and its part of the work (PanDA: Global Shares)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """One share; `value` counts among its siblings only, and is multiplied by its correction factor.

    `is_stretchable`: it goes before its siblings where some of them do not use what they are due.
    """

    name: str
    value: float
    parent: str | None = None
    correction: float = 1.0
    is_stretchable: bool = False

    @property
    def corrected(self) -> float:
        """The value that counts once history is taken into account (DIRAC: Dynamic share corrections)."""
        return self.value * self.correction


#: siblings by their parent; None: the top
Siblings = Mapping[str | None, Sequence[Node]]


def children_of(nodes: Sequence[Node]) -> dict[str | None, list[Node]]:
    """Siblings by parent, each group by name; None: the top."""
    groups: dict[str | None, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        groups.setdefault(node.parent, []).append(node)
    return groups


def normalised(nodes: Sequence[Node], *, corrected: bool = False) -> dict[str, float]:
    """Percent of everything that is due to each node.

    It is value_i * parent's percent / sum of the siblings' values.

    The root is 100. With `corrected` each value counts times its correction factor. Siblings whose values are all zero
    are due nothing. Why: only values of siblings can be compared. Example: below a root, values 3 and 1 are due 75 and
    25 percent. Source: PanDA, Global Shares.
    """
    groups = children_of(nodes)
    percent: dict[str, float] = {}

    def descend(parent: str | None, available: float) -> None:
        """Divide what the parent is due among its children."""
        siblings = groups.get(parent, [])
        values = [node.corrected if corrected else node.value for node in siblings]
        total = sum(values)
        for node, value in zip(siblings, values, strict=True):
            percent[node.name] = value * available / total if total > 0 else 0.0
            descend(node.name, percent[node.name])

    descend(None, 100.0)
    return percent


def below(nodes: Sequence[Node], usage: Mapping[str, float]) -> dict[str, float]:
    """Usage of each node with everything below it; nodes without any are left out.

    Shares that the tree does not know are left out; a node whose parent it does not know is a root.
    """
    groups = children_of(nodes)
    totals: dict[str, float] = {}

    def total(node: Node) -> float:
        """Usage of the node and everything below it."""
        found = usage.get(node.name, 0.0) + sum(total(child) for child in groups.get(node.name, []))
        if found > 0:
            totals[node.name] = found
        return found

    known = {node.name for node in nodes}
    for node in nodes:
        if node.parent not in known:
            total(node)
    return totals
