"""What is said of shares: target, use, factor, place in the order, and who borrows or is starved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.order.ranking import place_shares
from shared.order.standing import standing_of
from shared.order.tree import Node, normalised


def explained(
    nodes: Sequence[Node],
    used_hs06: Mapping[str, float],
    n_queued: Mapping[str, int],
    terms: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """One row for each share, in the order in which dispatch serves them; leaves have a place, from 1.

    Percents are of everything; HS06 are those of sent and running jobs. `terms`: what the latest correction of each
    share follows from.
    """
    due, corrected = normalised(nodes), normalised(nodes, corrected=True)
    by_name = {node.name: node for node in nodes}
    total = sum(used_hs06.get(node.name, 0.0) for node in nodes)
    rows, place = list[dict[str, Any]](), 0
    for one in place_shares(nodes, used_hs06, n_queued):
        place += one.is_leaf
        target_hs06 = total * due[one.name] / 100.0
        rows.append(
            {
                "gshare": one.name,
                "parent": one.parent,
                "place": place if one.is_leaf else None,
                "due_percent": round(due[one.name], 3),
                "correction_factor": round(by_name[one.name].correction, 4),
                "corrected_percent": round(corrected[one.name], 3),
                "used_percent": round(100.0 * one.used_hs06 / total, 3) if total else 0.0,
                "target_hs06": round(target_hs06, 1),
                "used_hs06": round(one.used_hs06, 1),
                "pledged_hs06": round(one.pledged_hs06, 1),
                "received_hs06": round(one.received_hs06, 1),
                "ratio": round(one.ratio, 4),
                "queued_jobs": one.n_queued,
                "standing": standing_of(one.used_hs06, target_hs06, one.n_queued),
                "terms": (terms or {}).get(one.name),
            }
        )
    return rows


def terms_shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """One stored correction for people: numbers with four digits, each slice with c times weight.

    Example: a slice with used 0.75, c 0.667 and weight 0.8 adds 0.5333.
    """
    slices = {
        name: {key: round(value, 4) for key, value in part.items()} | {"adds": round(part["c"] * part["weight"], 4)}
        for name, part in (row["terms"] or {}).items()
    }
    numbers = {key: None if row[key] is None else round(row[key], 4) for key in ("target", "total", "max_global")}
    rest = {key: row[key] for key in ("at", "vo", "corrector", "instance", "factor") if key in row}
    return rest | numbers | {"slices": slices}
