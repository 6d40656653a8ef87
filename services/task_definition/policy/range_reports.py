"""What the explanation of a task says of reports of its event ranges."""

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
