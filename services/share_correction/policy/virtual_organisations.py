"""Whose configuration corrects which shares: each VO may have its own.

Source: DIRAC, Dynamic share corrections.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from shared.order.tree import Node

#: the VO of shares whose VO has no configuration of its own, and of those without a VO
EVERY_VO = ""


def parts_by_vo(
    nodes: Sequence[Node], vos: Mapping[str, str | None], configured: Collection[str]
) -> dict[str, list[Node]]:
    """The shares by the VO whose configuration corrects them; `vos` is what each share itself says.

    A share without a VO has that of the nearest share above it. Shares of a VO that is not `configured` are together
    with those of no VO, under EVERY_VO. Example: Production with VO atlas and MC below it, Local without a VO, and only
    atlas configured: {"atlas": [Production, MC], "": [Local]}.
    """
    parents = {node.name: node.parent for node in nodes}
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        name: str | None = node.name
        while name is not None and not vos.get(name):
            name = parents.get(name)
        vo = (vos.get(name) or "") if name is not None else ""
        parts.setdefault(vo if vo in configured else EVERY_VO, []).append(node)
    return parts
