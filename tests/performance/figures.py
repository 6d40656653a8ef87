"""How figures are reported: the number, its limit measured in the same run, and the share of it that was reached."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], fraction: float) -> float:
    """The smallest value that at least this fraction of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(fraction * len(ordered) + 0.5) - 1))]


def times(name: str, seconds: Sequence[float]) -> str:
    """A line with median and 99th percentile in milliseconds."""
    median, p99 = percentile(seconds, 0.5), percentile(seconds, 0.99)
    return f"   {name:58} median {median * 1e3:7.1f} ms   p99 {p99 * 1e3:7.1f} ms   ({len(seconds)} times)"


def rate(name: str, per_s: float, *, limit: float | None = None, of: str = "") -> str:
    """A line with a rate, and what part of a limit it is."""
    part = f"   {per_s / limit:6.1%} of {of} ({limit:,.0f}/s)" if limit else ""
    return f"   {name:58} {per_s:10,.0f}/s{part}"
