"""Says whether so much arrives that waiting for more pays, where one transaction does several things."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

#: arrivals are counted over so long
OVER_S = 1.0
#: where the machine is so busy that a transaction takes long, the next waits this many times as long, up to a limit
REST, LONGEST_REST_S = 3.0, 0.4


class Pace:
    """Arrivals of the last second.

    Whoever is idle begins at once. Whoever is busy waits up to `wait_s`, where at least `worth` arrivals may be
    expected in it: little work is never delayed, much of it is done together. After something that took long it waits
    longer: on a machine that has too much to do, what is done together is what costs less.
    """

    def __init__(self, wait_s: float, *, worth: int, now: Callable[[], float] = time.monotonic) -> None:
        self._wait_s, self._now, self._rest_s = wait_s, now, 0.0
        self._recent: deque[float] = deque(maxlen=max(1, math.ceil(worth * OVER_S / wait_s))) if wait_s > 0 else deque()

    def arrived(self) -> float:
        """Note an arrival; its time."""
        now = self._now()
        if self._wait_s > 0:
            self._recent.append(now)
        return now

    def took(self, seconds: float) -> None:
        """Note how long the last transaction took."""
        self._rest_s = min(LONGEST_REST_S, REST * seconds)

    def left_s(self, since: float) -> float:
        """For how much longer something that arrived at `since` is to wait for others; 0: it does not."""
        now = self._now()
        if self._wait_s <= 0 or len(self._recent) < (self._recent.maxlen or 0) or now - self._recent[0] > OVER_S:
            return 0.0
        return max(0.0, since + max(self._wait_s, self._rest_s) - now)
