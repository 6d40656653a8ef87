"""Usage of shares, groups and users in the slices of a corrector, from rows of one reading."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shared.order.wms_history import Usage

#: below so many HS06 seconds nothing was used: sums of what was added and taken away end near nothing, not at it
NOTHING_HS06_S = 1e-3


@dataclass(frozen=True)
class UsageRow:
    """What one user of a share used over a span up to now."""

    span_s: float
    gshare: str
    vo: str
    working_group: str
    user_name: str
    hs06_s: float


def usage_of(
    rows: Iterable[UsageRow],
    spans_s: Sequence[float],
    entity: Callable[[UsageRow], str],
) -> list[Usage]:
    """HS06 seconds by entity, one mapping for each span in their order; only entities that used something.

    Example: rows of ann with 10 and of bob with 30 HS06 seconds in share MC give {"MC": 40} by share, and
    {"ann": 10, "bob": 30} by user.
    """
    sums: dict[float, dict[str, float]] = {span_s: defaultdict(float) for span_s in spans_s}
    for row in rows:
        if row.span_s in sums:
            sums[row.span_s][entity(row)] += row.hs06_s
    return [{name: used for name, used in sums[s].items() if used > NOTHING_HS06_S} for s in spans_s]
