"""Who borrows and who is starved: use of a share against its target."""

from __future__ import annotations

from typing import Literal

Standing = Literal["on target", "borrows", "starved", "idle", "unused"]

#: parts of the target by which use may differ from it
TOLERANCE = 0.02


def standing_of(used: float, due: float, n_queued: int) -> Standing:
    """How a share stands, from what it uses and what it is due, in one unit, and from its waiting jobs.

    It borrows what others do not use when it uses more than its due; it is starved when it uses less although jobs
    wait. Without waiting jobs it is idle when it uses nothing, and else leaves some of its due unused. Two percent of
    the due are no difference. Example: due 100, used 60: starved with a waiting job, "unused" without.
    """
    if used > due * (1 + TOLERANCE):
        return "borrows"
    if used >= due * (1 - TOLERANCE) and due > 0:
        return "on target"
    if n_queued > 0:
        return "starved"
    return "unused" if used > 0 else "idle"
