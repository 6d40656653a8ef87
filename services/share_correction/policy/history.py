"""Use over time as a table for people: buckets, and who used what in each; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

#: a change of use is known to so many seconds (`collecting.BUCKET_S`)
SHORTEST_S = 300
#: buckets of an answer, and names that have a column of their own
MOST_BUCKETS, MOST_NAMES = 24, 8
OTHERS = "others"


def width_for(span_s: float) -> int:
    """The width of a bucket so that there are at most 24: a multiple of five minutes."""
    return max(SHORTEST_S, SHORTEST_S * -(-int(span_s) // (MOST_BUCKETS * SHORTEST_S)))


def table_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean HS06 and percent of all in each bucket, by name.

    The smallest ones are told as one, together with those that have no name for the reader.
    """
    rows = list(rows)
    totals = defaultdict[str, float](float)
    for row in rows:
        totals[row["name"]] += row["hs06_s"]
    ordered = sorted((name for name in totals if name and totals[name] > 0), key=lambda name: (-totals[name], name))
    names = ordered[:MOST_NAMES]
    buckets: dict[Any, dict[str, Any]] = {}
    for row in rows:
        length_s = (row["ends_at"] - row["begins_at"]).total_seconds()
        bucket = buckets.setdefault(
            row["begins_at"],
            {"begins_at": row["begins_at"], "ends_at": row["ends_at"], "hs06": 0.0, "by_name": defaultdict(float)},
        )
        mean = row["hs06_s"] / length_s if length_s > 0 else 0.0
        bucket["hs06"] += mean
        bucket["by_name"][row["name"] if row["name"] in names else OTHERS] += mean
    return {
        "names": names + ([OTHERS] if len(ordered) > MOST_NAMES or totals.get("", 0.0) > 0 else []),
        "buckets": [_told(one) for one in buckets.values()],
    }


def _told(bucket: Mapping[str, Any]) -> dict[str, Any]:
    total = bucket["hs06"]
    return {
        "begins_at": bucket["begins_at"],
        "ends_at": bucket["ends_at"],
        "hs06": round(total, 1),
        "percent": {
            name: round(100.0 * mean / total, 1) if total > 0 else 0.0
            for name, mean in sorted(bucket["by_name"].items())
        },
    }
