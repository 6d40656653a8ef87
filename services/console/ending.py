"""What is over before its time, at whichever copy: sessions that were ended, links that were used."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.cache import Cache

KEY = "console/ended/{}"
#: while Redis is away it is told so often what it was not told
TELL_AGAIN_S = 5.0


class Ended:
    """Ids of sessions and links that were ended; other copies are told through Redis.

    While that is away, each copy knows what it was told itself, and tells it afterwards.
    """

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.time) -> None:
        self._cache = cache
        self._clock = clock
        self._known: dict[str, float] = {}
        #: what Redis was not told, and when it is tried again at the earliest
        self._untold: dict[str, float] = {}
        self._tell_again_at = 0.0

    async def end(self, name: str, until: float) -> bool:
        """End it; False where it was ended before.

        `until`: it would be over then anyhow, in seconds since the epoch.
        """
        now = self._clock()
        self._known = {one: over for one, over in self._known.items() if over > now}
        is_first = name not in self._known
        self._known[name] = until
        told = await self._tell(name, until)
        if told is None:
            self._untold[name] = until
        return is_first and told is not False

    async def has(self, name: str) -> bool:
        """Look whether it was ended, here or at another copy."""
        if self._known.get(name, 0.0) > self._clock():
            return True
        await self._tell_what_is_untold()
        return await self._cache.get(KEY.format(name)) is not None

    async def _tell(self, name: str, until: float) -> bool | None:
        lifetime_s = max(1.0, until - self._clock())
        return await self._cache.put_new(KEY.format(name), True, lifetime_s=lifetime_s)

    async def _tell_what_is_untold(self) -> None:
        """Tell Redis what it was not told while it was away: the first that it does not take ends that for a while."""
        now = self._clock()
        if not self._untold or now < self._tell_again_at:
            return
        self._tell_again_at = now + TELL_AGAIN_S
        for name, until in list(self._untold.items()):
            if until > now and await self._tell(name, until) is None:
                return
            self._untold.pop(name, None)
