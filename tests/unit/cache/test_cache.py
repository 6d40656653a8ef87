"""Versions, ages, and a Redis that is not there. (Redis itself is real.)"""

from __future__ import annotations

import time

import pytest

from shared.cache import NullCache, RedisCache
from tests.relay import Relay
from tests.servers import Servers


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


async def test_a_redis_that_is_slow_costs_one_time_out_and_is_used_again_when_it_answers(
    cache: RedisCache, servers_of_tests: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.cache.cache.SILENCE_AFTER_FAILURE_S", 0.2)
    causes: list[str] = []
    assert servers_of_tests.redis_url is not None
    with Relay(servers_of_tests.redis_url).running() as way:
        slow = RedisCache(way.url, prefix=cache._prefix, on_miss=causes.append)
        assert await slow.put("a", 1, version=1)
        way.silence()
        started = time.monotonic()
        assert [await slow.get("a") for _ in range(50)] == [None] * 50
        assert time.monotonic() - started < 5 and causes.count("failure") < 10, causes
        way.speak()
        deadline = time.monotonic() + 60
        while (found := await slow.get("a")) is None:
            assert time.monotonic() < deadline
        assert found.value == 1
        await slow.close()


async def test_a_redis_that_was_emptied_answers_with_misses_and_takes_values_again(cache: RedisCache) -> None:
    await cache.put_many({"a": 1, "b": 2}, version=9)
    await cache.forget_all()
    assert await cache.get_many(["a", "b"]) == {}
    assert await cache.put("a", 3, version=1), "the version that was there is forgotten, too"
    found = await cache.get("a")
    assert found is not None and (found.value, found.version) == (3, 1)


async def test_no_cache_at_all_answers_like_an_empty_one() -> None:
    cache = NullCache()
    assert not await cache.put("a", 1, version=1)
    assert await cache.get("a") is None
    assert await cache.get_many(["a"]) == {}


async def test_a_value_is_new_once_until_its_lifetime_is_over(cache: RedisCache) -> None:
    assert await cache.put_new("once", "first", lifetime_s=60) is True
    assert await cache.put_new("once", "second", lifetime_s=60) is False
    found = await cache.get("once")
    assert found is not None and found.value == "first"


async def test_whether_a_value_is_new_nobody_can_say_without_redis() -> None:
    assert await NullCache().put_new("a", 1, lifetime_s=1) is None
    away = RedisCache("redis://127.0.0.1:1/0")
    assert [await away.put_new("a", 1, lifetime_s=1) for _ in range(2)] == [None, None]
    await away.close()
