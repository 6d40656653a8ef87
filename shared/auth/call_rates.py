"""How many calls a caller may make: a bucket of tokens for each, filled at a rate up to a burst."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
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
        tokens = self._tokens(caller, rate, now)
        wait_s = 0.0 if tokens >= 1.0 else (1.0 - tokens) / rate.calls_per_s
        self._buckets.pop(caller, None)
        if len(self._buckets) >= self._most_kept:
            self._buckets.pop(next(iter(self._buckets)))
        self._buckets[caller] = (tokens - 1.0 if not wait_s else tokens, now)
        return wait_s

    def wait_s(self, caller: Hashable, rate: CallRate, now: float) -> float:
        """After how many seconds there is a token; none is taken."""
        tokens = self._tokens(caller, rate, now)
        return 0.0 if tokens >= 1.0 else (1.0 - tokens) / rate.calls_per_s

    def _tokens(self, caller: Hashable, rate: CallRate, now: float) -> float:
        tokens, at = self._buckets.get(caller, (rate.most, now))
        return min(rate.most, tokens + max(0.0, now - at) * rate.calls_per_s)


class TooManyCalls(Exception):
    """The caller should come again in `retry_after_s` seconds, a whole number."""

    def __init__(self, text: str, wait_s: float) -> None:
        self.retry_after_s = max(1, math.ceil(wait_s))
        super().__init__(f"{text}; come again in {self.retry_after_s} s")


#: what is counted, and how it is told: {rate} and {who} are filled in
CALLER, ADDRESS, FAILED = "caller", "address", "failed"
_TOLD = {
    CALLER: "more than {rate:g} calls/s of {who}",
    ADDRESS: "more than {rate:g} calls/s from {who} without a token",
    FAILED: "more than {rate:g} refused tokens/s from {who}: no other is looked at",
}


class CallLimits:
    """Counts the calls that one process answers, by caller and by address.

    Refused tokens are counted by address, too. `rates`: calls a second of each, 0 for no limit. `count` is told
    what was over its limit.
    """

    def __init__(
        self,
        rates: Mapping[str, float] | None = None,
        *,
        burst_s: float = 60.0,
        count: Callable[[str], None] = lambda limit: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rates = {limit: CallRate(rate, burst_s) for limit, rate in (rates or {}).items() if rate > 0}
        self._buckets = {limit: TokenBuckets() for limit in self._rates}
        self._count = count
        self._clock = clock

    def take(self, limit: str, who: str) -> None:
        """Count one call. Raises TooManyCalls."""
        if (rate := self._rates.get(limit)) is not None:
            self._refuse(limit, who, rate, self._buckets[limit].take(who, rate, self._clock()))

    def check(self, limit: str, who: str) -> None:
        """The same without counting it."""
        if (rate := self._rates.get(limit)) is not None:
            self._refuse(limit, who, rate, self._buckets[limit].wait_s(who, rate, self._clock()))

    def note(self, limit: str, who: str) -> None:
        """Count what has happened already."""
        if (rate := self._rates.get(limit)) is not None:
            self._buckets[limit].take(who, rate, self._clock())

    def _refuse(self, limit: str, who: str, rate: CallRate, wait_s: float) -> None:
        if wait_s:
            self._count(limit)
            raise TooManyCalls(_TOLD[limit].format(rate=rate.calls_per_s, who=who), wait_s)
