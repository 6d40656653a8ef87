"""Two copies of the console with the same keys: what was used or ended at one is so at the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.console.ending import TELL_AGAIN_S, Ended
from shared.auth.keyring import create_key_file
from shared.cache import RedisCache
from tests import servers
from tests.handlers.console.stubbed_api import Page, StubbedApi, browser_at, console_over, sign_in
from tests.handlers.console.test_signing_in import link_of, token_for

Copies = tuple[httpx.AsyncClient, httpx.AsyncClient]


@pytest.fixture
async def copies(
    api: StubbedApi, servers_of_tests: servers.Servers, cache: RedisCache, tmp_path: Path
) -> AsyncIterator[Copies]:
    """A browser at each."""
    create_key_file(tmp_path / "keys")
    settings = {"console_key_file": tmp_path / "keys", "redis_url": servers_of_tests.redis_url}
    async with AsyncExitStack() as stack:
        webs = [console_over(api, cache_prefix=cache._prefix, **settings) for _ in range(2)]
        one, other = [await stack.enter_async_context(browser_at(web)) for web in webs]
        yield one, other


async def test_a_copied_cookie_is_worth_nothing_after_signing_out(copies: Copies) -> None:
    one, other = copies
    await sign_in(one)
    copied = {"Cookie": f"orrery_console={one.cookies['orrery_console']}"}
    assert (await other.get("/console/", headers=copied)).status_code == 200
    fields = Page((await one.get("/console/")).text).form_to("/console/sign-out")
    assert (await one.post("/console/sign-out", data=fields)).status_code == 303
    for copy in (one, other):
        answer = await copy.get("/console/tasks", headers=copied)
        assert answer.status_code == 303 and "/console/sign-in" in answer.headers["location"]
    await sign_in(one)
    assert (await one.get("/console/")).status_code == 200, "the next session is another one"


async def test_a_link_signs_in_once_at_whichever_copy(copies: Copies) -> None:
    one, other = copies
    link = await link_of(one, token_for())
    forms = [Page((await copy.get(link)).text).form_to("/console/sign-in") for copy in copies]
    assert (await other.post("/console/sign-in", data=forms[1])).status_code == 303
    again = await one.post("/console/sign-in", data=forms[0])
    assert again.status_code == 403 and "was used before" in again.text
    assert (await one.get(link)).status_code == 403


async def test_without_redis_the_copy_that_was_asked_still_knows(browser: httpx.AsyncClient) -> None:
    copied = {"Cookie": f"orrery_console={browser.cookies['orrery_console']}"}
    fields = Page((await browser.get("/console/")).text).form_to("/console/sign-out")
    await browser.post("/console/sign-out", data=fields)
    assert (await browser.get("/console/", headers=copied)).status_code == 303


async def test_what_redis_was_not_told_while_it_was_away_it_is_told_afterwards(
    cache: RedisCache, servers_of_tests: servers.Servers
) -> None:
    now, is_away = [1000.0], [True]

    class Flaky(RedisCache):
        async def put_new(self, key: str, value: Any, *, lifetime_s: float) -> bool | None:
            return None if is_away[0] else await super().put_new(key, value, lifetime_s=lifetime_s)

    one = Ended(Flaky(servers_of_tests.redis_url, prefix=cache._prefix), lambda: now[0])
    other = Ended(cache, lambda: now[0])
    await one.end("session", now[0] + 3600.0)
    assert await one.has("session") and not await other.has("session")
    now[0] += TELL_AGAIN_S
    assert not await one.has("another"), "it is tried, and is away still"
    is_away[0] = False
    assert not await one.has("another") and not await other.has("session"), "not so soon again"
    now[0] += TELL_AGAIN_S
    await one.has("another")
    assert await other.has("session")
