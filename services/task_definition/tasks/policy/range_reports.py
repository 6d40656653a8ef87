"""What the explanation of a task says of its event ranges that were refused or failed for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def refused_line(refused: Mapping[str, Any]) -> str:
    """How many reports of event ranges came too late, or were refused otherwise; why the last one.

    Example: "3 reports of event ranges were refused, the last at 2026-01-01 00:00:00 UTC: job 7 is not with a pilot".
    """
    return (
        f"{refused['n_reports']} reports of event ranges were refused, "
        f"the last at {str(refused['last_at'])[:19]} UTC: {refused['reason']}"
    )


def fatal_line(fatal: Mapping[str, Any]) -> str:
    """How many ranges failed for good, and what follows.

    A set that fails for them gives its input back: that is tried again, with all its events, while it has attempts.

    Example: "1 range of events failed for good, in 1 job set; 1 of these failed (0 ranges have no attempt left,
    1 failed for good): its input is tried again while it has attempts".
    """
    ranges, sets, failed = fatal["n_ranges"], fatal["n_sets"], fatal["n_failed"]
    text = f"{ranges} range{'s' * (ranges != 1)} of events failed for good, in {sets} job set{'s' * (sets != 1)}"
    if not failed:
        return text
    return f"{text}; {failed} of these failed ({fatal['reason']}): its input is tried again while it has attempts"
