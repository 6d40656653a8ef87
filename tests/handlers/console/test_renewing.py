"""A session goes on by the refresh token of its issuer, and ends there, too, when somebody signs out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from services.console.asking import Away
from services.console.identifying import Given, Issuer
from services.console.renewing import BEFORE_S, KEPT_S, marks_of
from shared.auth.keyring import create_key_file
from shared.cache import RedisCache
from tests import authlib_issuer, servers
from tests.authlib_issuer import AuthlibIssuer, KnownClient
from tests.handlers.console.streams import Stream, stream_of
from tests.handlers.console.stubbed_api import ADDRESS, Page, StubbedApi, browser_at, envelope, sign_in, token_for
from tests.handlers.console.test_issuer import BACK, CLIENT, console_at, sent_back, sent_to_issuer

LIFETIME_S, SESSION_H = 600, 2.0
WHY = "/console/tasks/7/why"


@pytest.fixture
def issuer() -> Iterator[AuthlibIssuer]:
    with authlib_issuer.running({"ada": {"groups": ["atlas"]}, "bob": {}}) as issuer:
        issuer.clients.append(KnownClient(CLIENT, [BACK], renews=True))
        issuer.lifetime_s = LIFETIME_S
        yield issuer


@pytest.fixture
async def browser(issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]) -> AsyncIterator[httpx.AsyncClient]:
    """Of ada, who signed in at the issuer now."""
    clock[0] = time.time()  # the issuer has no other clock
    async with browser_at(console_at(issuer, api, clock, console_session_h=SESSION_H)) as browser:
        assert (await browser.get(await sent_back(await sent_to_issuer(browser)))).status_code == 303
        yield browser


async def with_cookies(browser: httpx.AsyncClient, copied: dict[str, str], path: str = WHY) -> httpx.Response:
    """What somebody is answered who copied the cookies."""
    browser.cookies.clear()
    return await browser.get(path, headers={"Cookie": "; ".join(f"{name}={value}" for name, value in copied.items())})


async def sign_out_form(browser: httpx.AsyncClient) -> dict[str, str]:
    return Page((await browser.get(WHY)).text).form_to("/console/sign-out")


def expiry_of(api: StubbedApi) -> int:
    token = api.asked[-1].headers["authorization"].removeprefix("Bearer ")
    return int(jwt.decode(token, options={"verify_signature": False})["exp"])


def pass_time(seconds: float, clock: list[float], issuer: AuthlibIssuer) -> None:
    """Tokens that are given from now on are over as much later, as if the issuer's clock went on, too."""
    clock[0] += seconds
    issuer.lifetime_s += int(seconds)


async def test_shortly_before_its_end_a_session_goes_on_without_signing_in_again(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    await browser.get(WHY)
    first = expiry_of(api)
    pass_time(LIFETIME_S - BEFORE_S - 5, clock, issuer)
    await browser.get(WHY)
    assert expiry_of(api) == first, "not yet"
    pass_time(10, clock, issuer)
    for _ in range(2):
        assert (await browser.get(WHY)).status_code == 200
        assert expiry_of(api) > first + LIFETIME_S - 100
    assert issuer.n_renewed == 1


async def test_who_comes_back_after_its_end_goes_on_until_the_time_of_a_session_is_over(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    pass_time(SESSION_H * 3600 - 100, clock, issuer)
    assert (await browser.get(WHY)).status_code == 200
    pass_time(99, clock, issuer)
    assert (await browser.get(WHY)).status_code == 200
    assert issuer.n_renewed == 1, "no token lasts longer than the time of a session"
    pass_time(2, clock, issuer)
    answer = await browser.get(WHY)
    assert answer.status_code == 303 and "/console/sign-in?next=" in answer.headers["location"]


async def test_parts_of_a_page_that_ask_at_once_take_the_token_to_the_issuer_once(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    pass_time(LIFETIME_S + 10, clock, issuer)
    answers = await asyncio.gather(*(browser.get(path) for path in (WHY, "/console/jobs", "/console/queues")))
    assert [one.status_code for one in answers] == [200, 200, 200] and issuer.n_renewed == 1


async def test_a_form_that_was_open_meanwhile_is_still_taken(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    form = Page((await browser.get("/console/tasks/7/commands/pause")).text).form_to("/console/tasks/7/commands/pause")
    pass_time(LIFETIME_S + 10, clock, issuer)
    api.says("task/pause", None, "done")
    await browser.post("/console/tasks/7/commands/pause", data=form)
    assert len(api.bodies("task/pause")) == 1


@pytest.mark.parametrize("gone", ["revoked", "of another person", "the API does not believe it"])
async def test_without_a_right_answer_of_the_issuer_one_signs_in_again(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float], gone: str
) -> None:
    if gone == "revoked":
        issuer.renewals.clear()
    elif gone == "of another person":
        for one in issuer.renewals.values():
            one.user = "bob"
    else:
        no = envelope(None, "the token is revoked", success=False, status=401)
        api.answers["system/get_attributes"] = lambda request: no
    pass_time(LIFETIME_S + 10, clock, issuer)
    answer = await browser.get(WHY)
    assert answer.status_code == 303 and "/console/sign-in?next=" in answer.headers["location"]
    assert "orrery_console_renewal" not in browser.cookies


async def test_who_signed_out_is_not_brought_back_by_a_copy_of_the_cookies(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    copied = dict(browser.cookies)
    form = Page((await browser.get(WHY)).text).form_to("/console/sign-out")
    await browser.post("/console/sign-out", data=form)
    pass_time(LIFETIME_S + 10, clock, issuer)
    assert (await with_cookies(browser, copied)).status_code == 303


async def test_who_signs_out_is_led_to_the_issuer_to_sign_out_there_too(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer
) -> None:
    form = Page((await browser.get(WHY)).text).form_to("/console/sign-out")
    answer = await browser.post("/console/sign-out", data=form)
    (address,) = [one for one in Page(answer.text).links if one.startswith(issuer.url)]
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    back = f"{ADDRESS}/console/sign-in"
    assert asked == {"client_id": CLIENT, "logout_hint": "ada", "post_logout_redirect_uri": back}, "no token"
    assert 'http-equiv="refresh"' in answer.text
    assert answer.headers["referrer-policy"] == "no-referrer" and "orrery_console" not in browser.cookies
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(address)).headers["location"] == f"{ADDRESS}/console/sign-in"
    assert issuer.left[0]["client_id"] == CLIENT


async def test_an_issuer_without_a_place_to_sign_out_and_a_token_of_others_lead_to_the_console_alone(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    clock[0] = time.time()
    for lets_leave, at_issuer in ((False, True), (True, False)):
        issuer.lets_leave = lets_leave
        async with browser_at(console_at(issuer, api, clock)) as browser:
            if at_issuer:
                await browser.get(await sent_back(await sent_to_issuer(browser)))
            else:
                await sign_in(browser)
            form = Page((await browser.get(WHY)).text).form_to("/console/sign-out")
            answer = await browser.post("/console/sign-out", data=form)
            assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")


async def test_an_issuer_that_gives_no_refresh_token_has_people_sign_in_again(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    issuer.clients[0].renews = False
    clock[0] = time.time()
    async with browser_at(console_at(issuer, api, clock)) as browser:
        await browser.get(await sent_back(await sent_to_issuer(browser)))
        assert (await browser.get(WHY)).status_code == 200 and "orrery_console_renewal" not in browser.cookies
        pass_time(LIFETIME_S + 10, clock, issuer)
        assert (await browser.get(WHY)).status_code == 303


async def test_who_signs_in_with_a_token_is_not_succeeded_by_the_one_before(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    before = dict(browser.cookies)
    assert (await sign_in(browser, token_for(120))).status_code == 303
    assert (await browser.get(WHY)).status_code == 200 and "orrery_console_renewal" not in browser.cookies
    pass_time(130, clock, issuer)
    assert (await browser.get(WHY)).status_code == 303
    assert (await with_cookies(browser, before)).status_code == 303, "a copy of what renewed it is worth nothing"


async def test_who_signs_in_at_the_issuer_without_a_refresh_token_is_not_succeeded_by_the_one_before(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    issuer.clients[0].renews = False
    assert (await browser.get(await sent_back(await sent_to_issuer(browser), "bob"))).status_code == 303
    issuer.clients[0].renews = True
    assert "orrery_console_renewal" not in browser.cookies
    pass_time(LIFETIME_S + 10, clock, issuer)
    assert (await browser.get(WHY)).status_code == 303


async def test_what_renews_another_session_than_the_one_of_the_browser_is_forgotten(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    clock[0] = time.time()
    web = console_at(issuer, api, clock)
    async with browser_at(web) as browser, browser_at(web) as other:
        await browser.get(await sent_back(await sent_to_issuer(browser)))
        await sign_in(other, token_for(900))
        answer = await with_cookies(other, {**dict(browser.cookies), **dict(other.cookies)})
    assert answer.status_code == 200
    assert 'orrery_console_renewal=""' in answer.headers["set-cookie"] and issuer.n_renewed == 0


async def test_signing_out_after_the_end_of_the_token_ends_what_would_renew_it_and_leads_to_the_issuer(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    form = await sign_out_form(browser)
    copied = dict(browser.cookies)
    pass_time(LIFETIME_S + 10, clock, issuer)
    forged = await browser.post("/console/sign-out", data={"form": "forged"})
    assert forged.status_code == 403 and "this form is not of a page that you opened here" in forged.text
    assert "orrery_console_renewal" in browser.cookies
    answer = await browser.post("/console/sign-out", data=form)
    assert answer.status_code == 200 and "orrery_console_renewal" not in browser.cookies
    assert [one.split("?")[0] for one in Page(answer.text).links if one.startswith(issuer.url)] == [
        f"{issuer.url}/leave"
    ]
    assert (await with_cookies(browser, copied)).status_code == 303 and issuer.n_renewed == 0


async def test_signing_out_has_the_issuer_forget_the_refresh_token(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer
) -> None:
    (token,) = issuer.renewals
    await browser.post("/console/sign-out", data=await sign_out_form(browser))
    assert issuer.revoked == [token] and not issuer.renewals


async def test_a_form_of_another_site_that_brings_no_cookies_deletes_none(browser: httpx.AsyncClient) -> None:
    kept = dict(browser.cookies)
    browser.cookies.clear()
    answer = await browser.post("/console/sign-out", data={"form": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 303 and "set-cookie" not in answer.headers
    assert (await with_cookies(browser, kept)).status_code == 200


async def test_signing_out_is_told_to_programs_with_the_place_where_one_leaves_the_issuer(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer
) -> None:
    form = await sign_out_form(browser)
    answer = await browser.post("/console/sign-out", data=form, headers={"Accept": "application/json"})
    assert answer.json()["data"]["leaving"].startswith(f"{issuer.url}/leave?")


async def test_a_session_whose_token_is_refused_is_over_with_what_renews_it(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    copied, known = dict(browser.cookies), dict(api.answers)
    no = envelope(None, "the token is revoked", success=False, status=401)
    api.answers = {path: lambda request: no for path in known}
    assert (await browser.get(WHY)).status_code == 303
    assert not {"orrery_console", "orrery_console_renewal"} & set(browser.cookies)
    api.answers = known
    pass_time(LIFETIME_S + 10, clock, issuer)
    assert (await with_cookies(browser, copied)).status_code == 303 and issuer.n_renewed == 0


async def test_a_renewed_token_is_asked_about_with_the_time_of_the_one_that_was_signed_in_with(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    copied = dict(browser.cookies)
    first_at = jwt.decode(
        api.asked[-1].headers["authorization"].removeprefix("Bearer "), options={"verify_signature": False}
    )["iat"]
    believed = api.answers["system/get_attributes"]

    def revoked(request: httpx.Request) -> httpx.Response:
        is_before = float(request.url.params.get("issued_at", "inf")) <= first_at
        return envelope(None, "revoked", success=False, status=401) if is_before else believed(request)

    api.answers["system/get_attributes"] = revoked
    pass_time(LIFETIME_S + 10, clock, issuer)
    assert (await browser.get(WHY)).status_code == 303 and "orrery_console_renewal" not in browser.cookies
    api.answers["system/get_attributes"] = believed
    assert (await with_cookies(browser, copied)).status_code == 303, "a copy is not renewed later either"


@pytest.mark.parametrize("place", [0, 1])
async def test_a_session_ends_with_the_next_renewal_when_any_of_its_tokens_was_revoked_by_its_id(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float], place: int
) -> None:
    tokens = []
    for _ in range(2):
        assert (await browser.get(WHY)).status_code == 200
        tokens.append(api.asked[-1].headers["authorization"].removeprefix("Bearer "))
        pass_time(LIFETIME_S + 10, clock, issuer)
    revoked, believed = set(marks_of(tokens[place])), api.answers["system/get_attributes"]

    def known(request: httpx.Request) -> httpx.Response:
        is_revoked = not revoked.isdisjoint(request.url.params.get("marks", "").split(","))
        return envelope(None, "revoked", success=False, status=401) if is_revoked else believed(request)

    copied = dict(browser.cookies)
    api.answers["system/get_attributes"] = known
    assert tokens[0] != tokens[1] and (await browser.get(WHY)).status_code == 303
    api.answers["system/get_attributes"] = believed
    assert (await with_cookies(browser, copied)).status_code == 303, "a copy is not renewed later either"


async def test_while_the_api_is_away_a_renewal_is_kept_and_goes_on_afterwards(
    browser: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    believed = api.answers["system/get_attributes"]
    api.away("system/get_attributes")
    pass_time(LIFETIME_S + 10, clock, issuer)
    answer = await browser.get(WHY)
    assert answer.status_code == 503 and "A service is away" in answer.text
    api.answers["system/get_attributes"] = believed
    assert (await browser.get(WHY)).status_code == 200 and issuer.n_renewed == 2


async def test_while_the_issuer_is_away_one_is_told_so_and_goes_on_afterwards(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_time(LIFETIME_S + 10, clock, issuer)
    for error in (Away("the issuer cannot be asked"), KeyError("strange")):

        async def fail(self: Issuer, refresh_token: str, subject: str, error: Exception = error) -> Given:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Issuer, "renewed", fail)
            answer = await browser.get(WHY)
            assert answer.status_code == 503 and "A service is away" in answer.text
    assert (await browser.get(WHY)).status_code == 200 and issuer.n_renewed == 1


@pytest.mark.parametrize("passed_s", [0, KEPT_S - 1])
async def test_another_page_with_the_refresh_token_that_was_used_is_given_the_same_for_minutes(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float], passed_s: float
) -> None:
    used = {name: value for name, value in browser.cookies.items() if name == "orrery_console_renewal"}
    pass_time(LIFETIME_S + 10, clock, issuer)
    assert (await browser.get(WHY)).status_code == 200
    pass_time(passed_s, clock, issuer)
    assert (await with_cookies(browser, used)).status_code == 200 and issuer.n_renewed == 1
    pass_time(KEPT_S, clock, issuer)
    assert (await with_cookies(browser, used)).status_code == 303


async def test_two_copies_that_are_asked_at_once_take_a_refresh_token_to_the_issuer_once(
    api: StubbedApi,
    issuer: AuthlibIssuer,
    clock: list[float],
    servers_of_tests: servers.Servers,
    cache: RedisCache,
    tmp_path: Path,
) -> None:
    clock[0] = time.time()
    create_key_file(tmp_path / "keys")
    shared = {"console_key_file": tmp_path / "keys", "redis_url": servers_of_tests.redis_url}
    consoles = [console_at(issuer, api, clock, cache_prefix=cache._prefix, **shared) for _ in range(2)]
    async with browser_at(consoles[0]) as first, browser_at(consoles[1]) as second:
        assert (await first.get(await sent_back(await sent_to_issuer(first)))).status_code == 303
        copied = dict(first.cookies)
        pass_time(LIFETIME_S + 10, clock, issuer)
        answers = await asyncio.gather(first.get(WHY), with_cookies(second, copied))
        assert [one.status_code for one in answers] == [200, 200] and issuer.n_renewed == 1
        assert (await with_cookies(second, copied)).status_code == 200, "later, too"


async def test_a_token_of_a_minute_is_not_renewed_at_each_page(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    clock[0], issuer.lifetime_s = time.time(), 60
    async with browser_at(console_at(issuer, api, clock)) as browser:
        await browser.get(await sent_back(await sent_to_issuer(browser)))
        for _ in range(3):
            assert (await browser.get(WHY)).status_code == 200
        assert issuer.n_renewed == 0
        pass_time(50, clock, issuer)
        assert (await browser.get(WHY)).status_code == 200 and issuer.n_renewed == 1


async def test_an_open_list_is_told_of_changes_after_the_end_of_the_token(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    clock[0] = time.time()
    web = console_at(issuer, api, clock)
    async with browser_at(web) as browser:
        await browser.get(await sent_back(await sent_to_issuer(browser)))
        address = stream_of(await browser.get("/console/tasks"))
        pass_time(LIFETIME_S + 10, clock, issuer)
        async with Stream(web, browser, address) as stream:
            assert stream.status == 200 and "orrery_console" in stream.headers["set-cookie"]
            assert issuer.n_renewed == 1
