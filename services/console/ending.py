"""What is over before its time, at whichever copy: sessions that were ended, links that were used."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.cache import Cache

KEY = "console/ended/{}"


class Ended:
    """Ids of sessions and links that were ended; other copies are told through Redis.

    While that is away, each copy knows what it was told itself.
    """

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.time) -> None:
        self._cache = cache
        self._clock = clock
        self._known: dict[str, float] = {}

    async def end(self, name: str, until: float) -> bool:
        """End it; False where it was ended before.

        `until`: it would be over then anyhow, in seconds since the epoch.
        """
        now = self._clock()
        self._known = {one: over for one, over in self._known.items() if over > now}
        is_first = name not in self._known
        self._known[name] = until
        told = await self._cache.put_new(KEY.format(name), True, lifetime_s=max(1.0, until - now))
        return is_first and told is not False

    async def has(self, name: str) -> bool:
        """Look whether it was ended, here or at another copy."""
        if self._known.get(name, 0.0) > self._clock():
            return True
        return await self._cache.get(KEY.format(name)) is not None
