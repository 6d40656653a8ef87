"""Versions, ages, and a Redis that is not there. (Redis itself is real.)"""

from __future__ import annotations

import time

import pytest

from shared.cache import NullCache, RedisCache


async def test_a_value_comes_back_with_its_version_and_age(cache: RedisCache) -> None:
    assert await cache.put("queue/CERN", {"running": 5, "slots": [1, 2]}, version=7)
    found = await cache.get("queue/CERN")
    assert found is not None
    assert (found.value, found.version) == ({"running": 5, "slots": [1, 2]}, 7)
    assert 0 <= found.age_s < 5


async def test_an_older_version_never_replaces_a_newer_one(cache: RedisCache) -> None:
    assert await cache.put("k", "new", version=8)
    assert not await cache.put("k", "old", version=7)
    assert await cache.put("k", "same", version=8)
    found = await cache.get("k")
    assert found is not None and found.value == "same"


async def test_many_values_take_one_round_trip_and_absent_ones_are_left_out(cache: RedisCache) -> None:
    assert await cache.put_many({f"k{i}": i for i in range(500)}, version=1) == 500
    found = await cache.get_many([f"k{i}" for i in range(600)])
    assert {key: stamped.value for key, stamped in found.items()} == {f"k{i}": i for i in range(500)}


async def test_a_value_ends_with_its_lifetime(cache: RedisCache) -> None:
    await cache.put("short", 1, version=1, lifetime_s=0.001)
    deadline = time.monotonic() + 60
    while await cache.get("short") is not None:
        assert time.monotonic() < deadline


async def test_a_foreign_value_under_the_key_is_a_miss(cache: RedisCache) -> None:
    await cache._redis.hset(cache._prefix + "odd", mapping={"v": "x", "t": "y", "b": "{"})
    assert await cache.get("odd") is None


async def test_without_redis_every_read_is_a_miss_that_is_counted_and_costs_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shared.cache.cache.SILENCE_AFTER_FAILURE_S", 3600.0)
    causes: list[str] = []
    cache = RedisCache("redis://127.0.0.1:1/0", on_miss=causes.append)
    for _ in range(100):
        assert await cache.get("a") is None
        assert not await cache.put("a", 1, version=1)
    assert causes[0] == "failure" and set(causes[1:]) == {"silenced"}, "after a failure Redis is left alone"
    assert len(causes) == 100
    await cache.close()


async def test_redis_is_used_again_when_it_is_back(cache: RedisCache, monkeypatch: pytest.MonkeyPatch) -> None:
    await cache.put("a", 1, version=1)
    cache._failed(ConnectionError("gone"))
    assert await cache.get("a") is None
    monkeypatch.setattr(cache, "_silent_until", 0.0)
    assert await cache.get("a") is not None


async def test_no_cache_at_all_answers_like_an_empty_one() -> None:
    cache = NullCache()
    assert not await cache.put("a", 1, version=1)
    assert await cache.get("a") is None
    assert await cache.get_many(["a"]) == {}
