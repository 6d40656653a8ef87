"""Spans of time as people write them: 90s, 15m, 1h, 2d."""

from __future__ import annotations

import re

ALLOWED = "a number and s, m, h or d, such as 90s, 15m, 1h or 2d"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")


def seconds_of(text: str) -> float:
    """Read a span of time. Example: 1h and 60m are 3600 seconds. Raises ValueError with what is allowed."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"allowed: {ALLOWED}")
    return float(found[1]) * _SECONDS[found[2]]
