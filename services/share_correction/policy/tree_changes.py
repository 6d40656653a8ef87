"""What a new tree of shares changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from shared.model.share import Share
from shared.order.tree import Node, normalised


def leaves_of(tree: Sequence[Share]) -> list[str]:
    """The shares that tasks may have, in the order of the tree."""
    parents = {share.parent for share in tree}
    return [share.name for share in tree if share.name not in parents]


def changes(before: Sequence[Share], after: Sequence[Share]) -> list[dict[str, Any]]:
    """One row for each share that is added, removed or different, by name, with its part of everything.

    `fields`: value before and after of each field that differs. Example: [A 50, B 50] to [A 75, B 25] are two rows,
    of A from 50 to 75 percent and of B from 50 to 25.
    """
    old, new = {share.name: share for share in before}, {share.name: share for share in after}
    due_before, due_after = _due(before), _due(after)
    rows = []
    for name in sorted(old.keys() | new.keys()):
        fields = _differences(old[name], new[name]) if name in old and name in new else {}
        percent = (due_before.get(name), due_after.get(name))
        if name not in old or name not in new or fields or percent[0] != percent[1]:
            change = "added" if name not in old else "removed" if name not in new else "changed"
            rows.append(
                {
                    "gshare": name,
                    "change": change,
                    "due_percent_before": percent[0],
                    "due_percent_after": percent[1],
                    "fields": fields,
                }
            )
    return rows


def _differences(before: Share, after: Share) -> dict[str, list[Any]]:
    old, new = asdict(before), asdict(after)
    return {field: [old[field], new[field]] for field in old if old[field] != new[field] and field != "queue_id"}


def _due(tree: Sequence[Share]) -> dict[str, float]:
    percent = normalised([Node(share.name, share.value, share.parent) for share in tree])
    return {name: round(value, 3) for name, value in percent.items()}
