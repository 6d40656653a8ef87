"""Values with a version and an age, in Redis or nowhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import redis.asyncio as redis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

TIMEOUT_S = 0.5
SILENCE_AFTER_FAILURE_S = 1.0

# A value is a hash: v version, t when it was written (Redis's clock, microseconds), b body. Only a newer version
# replaces an older one, so a late writer cannot put yesterday's numbers over today's.
_PUT = """
local known = redis.call('HGET', KEYS[1], 'v')
if known and tonumber(known) > tonumber(ARGV[1]) then return 0 end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'v', ARGV[1], 't', t[1] .. string.format('%06d', t[2]), 'b', ARGV[2])
if tonumber(ARGV[3]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) else redis.call('PERSIST', KEYS[1]) end
return 1
"""

# the same form, for a value that only the first writer may give
_PUT_NEW = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'v', 1, 't', t[1] .. string.format('%06d', t[2]), 'b', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""


@dataclass(frozen=True)
class Stamped:
    value: Any
    version: int
    age_s: float


class Cache(Protocol):
    """What services see."""

    async def put(self, key: str, value: Any, version: int, *, lifetime_s: float | None = None) -> bool:
        """Store an absolute value; False if it was not stored (newer version there, or no Redis)."""

    async def put_new(self, key: str, value: Any, *, lifetime_s: float) -> bool | None:
        """Store a value unless there is one: whether it was stored, or None where nobody can say (no Redis)."""

    async def get(self, key: str) -> Stamped | None:
        """The value with its version and age, or None: a miss, whatever the cause."""

    async def put_many(self, values: Mapping[str, Any], version: int, *, lifetime_s: float | None = None) -> int:
        """Store several values of one version in one round trip; how many were stored."""

    async def get_many(self, keys: Sequence[str]) -> dict[str, Stamped]:
        """Those of `keys` that are there, in one round trip."""

    async def delete(self, *keys: str) -> None:
        """Forget values."""

    async def close(self) -> None: ...


class NullCache:
    """No Redis: every read is a miss."""

    async def put(self, key: str, value: Any, version: int, *, lifetime_s: float | None = None) -> bool:
        return False

    async def put_new(self, key: str, value: Any, *, lifetime_s: float) -> bool | None:
        return None

    async def get(self, key: str) -> Stamped | None:
        return None

    async def put_many(self, values: Mapping[str, Any], version: int, *, lifetime_s: float | None = None) -> int:
        return 0

    async def get_many(self, keys: Sequence[str]) -> dict[str, Stamped]:
        return {}

    async def delete(self, *keys: str) -> None:
        return None

    async def close(self) -> None:
        return None


class RedisCache:
    """Redis behind short time-outs.

    After a failure it is left alone for a second, so that a slow or absent Redis costs one time-out per second and not
    one per call. `on_miss(cause)` counts: "absent", "failure" or "silenced".
    """

    def __init__(self, url: str, *, prefix: str = "orrery:", on_miss: Callable[[str], None] | None = None) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry_on_timeout=False
        )
        self._prefix = prefix
        self._put = self._redis.register_script(_PUT)
        self._put_new = self._redis.register_script(_PUT_NEW)
        self._on_miss = on_miss or (lambda cause: None)
        self._silent_until = 0.0

    async def put(self, key: str, value: Any, version: int, *, lifetime_s: float | None = None) -> bool:
        return await self.put_many({key: value}, version, lifetime_s=lifetime_s) == 1

    async def put_new(self, key: str, value: Any, *, lifetime_s: float) -> bool | None:
        if self._silenced():
            return None
        body, lifetime_ms = orjson.dumps(value), max(1, int(lifetime_s * 1000))
        try:
            return bool(await self._put_new(keys=[self._prefix + key], args=[body, lifetime_ms]))
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return None

    async def get(self, key: str) -> Stamped | None:
        return (await self.get_many([key])).get(key)

    async def put_many(self, values: Mapping[str, Any], version: int, *, lifetime_s: float | None = None) -> int:
        if not values or self._silenced():
            return 0
        lifetime_ms = 0 if lifetime_s is None else max(1, int(lifetime_s * 1000))
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key, value in values.items():
                    body = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
                    await self._put(keys=[self._prefix + key], args=[version, body, lifetime_ms], client=pipe)
                return sum(int(stored) for stored in await pipe.execute())
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)
            return 0

    async def get_many(self, keys: Sequence[str]) -> dict[str, Stamped]:
        if not keys:
            return {}
        if self._silenced():
            self._miss("silenced", len(keys))
            return {}
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.time()
                for key in keys:
                    pipe.hmget(self._prefix + key, "v", "t", "b")
                (seconds, microseconds), *rows = await pipe.execute()
            now_us = seconds * 1_000_000 + microseconds
            found = {key: _stamped(row, now_us) for key, row in zip(keys, rows, strict=True) if None not in row}
        except (RedisError, OSError, TimeoutError, ValueError, TypeError) as error:
            self._failed(error)
            self._miss("failure", len(keys))
            return {}
        self._miss("absent", len(keys) - len(found))
        return found

    async def delete(self, *keys: str) -> None:
        if not keys or self._silenced():
            return
        try:
            await self._redis.delete(*(self._prefix + key for key in keys))
        except (RedisError, OSError, TimeoutError) as error:
            self._failed(error)

    async def forget_all(self) -> None:
        """Delete every value under this cache's prefix. Raises when Redis cannot be reached."""
        keys = [key async for key in self._redis.scan_iter(match=self._prefix + "*", count=1000)]
        if keys:
            await self._redis.delete(*keys)

    async def close(self) -> None:
        await self._redis.aclose()

    def _silenced(self) -> bool:
        return time.monotonic() < self._silent_until

    def _failed(self, error: BaseException) -> None:
        self._silent_until = time.monotonic() + SILENCE_AFTER_FAILURE_S
        log.warning("Redis failed (everything is read from PostgreSQL meanwhile): %s", error)

    def _miss(self, cause: str, count: int) -> None:
        for _ in range(count):
            self._on_miss(cause)


def _stamped(row: Sequence[bytes], now_us: int) -> Stamped:
    version, written_us, body = row
    return Stamped(orjson.loads(body), int(version), max(0.0, (now_us - int(written_us)) / 1e6))
