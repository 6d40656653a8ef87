"""The order of shares in a world file, by the rules by which dispatch orders them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from services.share_correction.policy.explanation import explained
from shared.brokerage.estimates import DEFAULT_CORE_POWER_HS06
from shared.model.grid import parse_grid
from shared.model.problems import InvalidGrid, Problem
from shared.model.world_file import WorldFile
from shared.order.tree import Node


def order_of_shares(file: WorldFile) -> list[dict[str, Any]]:
    """One row for each share with every term, in the order in which dispatch would serve them.

    Raises InvalidGrid with everything that is wrong with the grid.
    """
    grid = parse_grid(file.grid_files())
    unknown = sorted(file.share_corrections.keys() - {share.name for share in grid.shares})
    if unknown:
        raise InvalidGrid([Problem("world", "share_corrections", name, "is not a share") for name in unknown])
    nodes = [
        Node(share.name, share.value, share.parent, file.share_corrections.get(share.name, 1.0), share.stretchable)
        for share in grid.shares
    ]
    used_hs06, n_queued = defaultdict[str, float](float), Counter[str]()
    for row in file.statistics:
        if row.status in ("sent", "running"):
            queue = grid.queues.get(row.queue)
            power = queue.core_power_hs06 if queue is not None else 0.0
            used_hs06[row.gshare] += row.n_cores * (power or DEFAULT_CORE_POWER_HS06)
        elif row.status == "activated":
            n_queued[row.gshare] += row.n_jobs
    return explained(nodes, used_hs06, n_queued)
