"""A session goes on by the refresh token of its issuer, and ends there, too, when somebody signs out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from services.console.renewing import BEFORE_S, KEPT_S
from tests import authlib_issuer
from tests.authlib_issuer import AuthlibIssuer, KnownClient
from tests.handlers.console.stubbed_api import ADDRESS, Page, StubbedApi, browser_at, envelope, sign_in
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
    assert len(issuer.renewals) == 1, "the one that was used is worth nothing any more"


async def test_who_comes_back_after_its_end_goes_on_until_the_time_of_a_session_is_over(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    pass_time(SESSION_H * 3600 - 100, clock, issuer)
    assert (await browser.get(WHY)).status_code == 200
    pass_time(99 + KEPT_S - KEPT_S, clock, issuer)
    assert (await browser.get(WHY)).status_code == 200
    pass_time(2, clock, issuer)
    answer = await browser.get(WHY)
    assert answer.status_code == 303 and "/console/sign-in?next=" in answer.headers["location"]


async def test_parts_of_a_page_that_ask_at_once_take_the_token_to_the_issuer_once(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    pass_time(LIFETIME_S + 10, clock, issuer)
    answers = await asyncio.gather(*(browser.get(path) for path in (WHY, "/console/jobs", "/console/queues")))
    assert [one.status_code for one in answers] == [200, 200, 200] and len(issuer.renewals) == 1


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
    pass_time(LIFETIME_S + 1, clock, issuer)
    answer = await browser.get(WHY)
    assert answer.status_code == 303 and "/console/sign-in?next=" in answer.headers["location"]
    assert "orrery_console_renewal" not in browser.cookies


async def test_who_signed_out_is_not_brought_back_by_a_copy_of_the_cookies(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer, clock: list[float]
) -> None:
    copied = dict(browser.cookies)
    form = Page((await browser.get(WHY)).text).form_to("/console/sign-out")
    await browser.post("/console/sign-out", data=form)
    pass_time(LIFETIME_S + 1, clock, issuer)
    for name, value in copied.items():
        browser.cookies.set(name, value, domain="console.local")
    assert (
        await browser.get(WHY, headers={"Cookie": "; ".join(f"{n}={v}" for n, v in copied.items())})
    ).status_code == 303


async def test_who_signs_out_is_led_to_the_issuer_to_sign_out_there_too(
    browser: httpx.AsyncClient, issuer: AuthlibIssuer
) -> None:
    form = Page((await browser.get(WHY)).text).form_to("/console/sign-out")
    answer = await browser.post("/console/sign-out", data=form)
    (address,) = [one for one in Page(answer.text).links if one.startswith(issuer.url)]
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    claims = jwt.decode(asked.pop("id_token_hint"), options={"verify_signature": False})
    assert asked == {"client_id": CLIENT, "post_logout_redirect_uri": f"{ADDRESS}/console/sign-in"}
    assert claims["sub"] == "ada" and 'http-equiv="refresh"' in answer.text
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
        pass_time(LIFETIME_S + 1, clock, issuer)
        assert (await browser.get(WHY)).status_code == 303
