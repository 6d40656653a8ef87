"""How many calls a caller may make: a bucket of tokens for each, filled at a rate up to a burst."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class CallRate:
    """Calls in a second, and for how many seconds of them a caller may save up."""

    calls_per_s: float
    burst_s: float

    @property
    def most(self) -> float:
        """Calls that may come at once."""
        return max(1.0, self.calls_per_s * self.burst_s)


class TokenBuckets:
    """Buckets by caller, at most `most_kept`: the one that was not used for longest is forgotten."""

    def __init__(self, most_kept: int = 100_000) -> None:
        self._most_kept = most_kept
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, caller: Hashable, rate: CallRate, now: float) -> float:
        """Take one token: 0.0, or after how many seconds there will be one, and nothing is taken.

        Example: at 2 calls/s and a burst of 5 s ten calls come through at once, the eleventh may come 0.5 s later.
        """
        tokens, at = self._buckets.pop(caller, (rate.most, now))
        tokens = min(rate.most, tokens + max(0.0, now - at) * rate.calls_per_s)
        wait_s = 0.0 if tokens >= 1.0 else (1.0 - tokens) / rate.calls_per_s
        if len(self._buckets) >= self._most_kept:
            self._buckets.pop(next(iter(self._buckets)))
        self._buckets[caller] = (tokens - 1.0 if not wait_s else tokens, now)
        return wait_s
