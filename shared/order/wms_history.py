"""The WMSHistory corrector: who ran more than its share gets less, and vice versa.

Source: DIRAC, Dynamic share corrections.

For each slice of the past, with e = expected share / sum of expected shares and u = usage / sum of usages:

    c = max(min(e / u, max), 1 / max)             (no usage: c = max)
    correction = sum over slices of c * weight
    correction = max(min(correction, G), 1 / G)   (G: the instance's global maximum)

Why the bounds: one slice without usage must not outweigh all others. Example: e = 0.5 and u = 0.8 give
c = 0.5 / 0.8 = 0.625; with u = 0.1 and max 2 they give 2, not 5.

Corrected shares are not normalised again: matching is relative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.order.configuration import Instance, Slice
from shared.order.tree import Node, below, children_of

Usage = Mapping[str, float]
"""Entity -> what it used in one slice, in any unit; only entities that used something."""


@dataclass(frozen=True)
class Term:
    """What one slice says of an entity.

    `used`: its part of what these entities used in the slice (0 to 1); `c` is bounded, and counts times `weight`.
    """

    slice: str
    used: float
    c: float
    weight: float

    @property
    def weighted(self) -> float:
        """What the slice adds to the correction."""
        return self.c * self.weight


@dataclass(frozen=True)
class Correction:
    """The factor of one entity with all that it follows from.

    `target`: its part of what is expected (0 to 1); `total`: the sum of the terms, before the global bound.
    """

    factor: float
    target: float
    terms: tuple[Term, ...]

    @property
    def total(self) -> float:
        """The correction before it is bounded."""
        return sum(term.weighted for term in self.terms)


def clamp(value: float, most: float) -> float:
    """Into [1 / most, most]."""
    return max(min(value, most), 1.0 / most)


def correct(
    expected: Mapping[str, float], usage_by_slice: Sequence[Usage], instance: Instance
) -> dict[str, Correction]:
    """The corrections of entities with these expected shares; an entity left out keeps its share.

    `usage_by_slice`: one for each slice of the instance. Nobody is corrected if one slice has no history at all (the
    whole history is not to be trusted then) or if nobody is expected anything. A slice in which these entities used
    nothing says nothing. An absent entity, or one whose usage is 0, gets the slice's maximum times its weight.
    """
    total_expected = sum(expected.values())
    if total_expected <= 0 or any(not usage for usage in usage_by_slice):
        return {}
    terms: dict[str, list[Term]] = {name: [] for name in expected}
    for part, usage in zip(instance.slices, usage_by_slice, strict=True):
        total_usage = sum(usage.get(name, 0.0) for name in expected)
        if total_usage <= 0:
            continue
        for name, share in expected.items():
            terms[name].append(_term(share / total_expected, usage.get(name, 0.0) / total_usage, part))
    return {
        name: Correction(
            clamp(sum(term.weighted for term in parts), instance.max_global),
            expected[name] / total_expected,
            tuple(parts),
        )
        for name, parts in terms.items()
        if parts
    }


def _term(expected: float, used: float, part: Slice) -> Term:
    c = part.max_correction if used <= 0 else clamp(expected / used, part.max_correction)
    return Term(part.name, used, c, part.weight)


def correct_siblings(
    nodes: Sequence[Node], usage_by_slice: Sequence[Usage], instance: Instance
) -> dict[str, Correction]:
    """Corrections by share: siblings against each other at every level of the tree.

    `usage_by_slice` is by leaf share; inner nodes use what is below them. Nodes of one VO alone are corrected
    against each other and not against their siblings of other VOs.
    """
    if any(not usage for usage in usage_by_slice):
        return {}
    totals = [below(nodes, usage) for usage in usage_by_slice]
    found: dict[str, Correction] = {}
    for siblings in children_of(nodes).values():
        expected = {node.name: node.value for node in siblings}
        # a level that used nothing in a slice is no missing history: usage of the whole tree is there
        relevant = [total or {"": 1.0} for total in totals]
        found |= correct(expected, relevant, instance)
    return found
