"""Signing in by a token or a link, the session in its cookie, and forms that nobody else can send."""

from __future__ import annotations

import json

import httpx
import pytest
from fastapi import FastAPI

from services.console.asking import Api
from services.console.policy.sessions import MOST_TOKEN_CHARACTERS
from services.console.signing import FORM_S, LINK_S, MOST_COOKIE_CHARACTERS
from tests.handlers.console.stubbed_api import (
    RECORDED,
    Page,
    StubbedApi,
    browser_at,
    console_over,
    envelope,
    sign_in,
    token_for,
)

WHY = "/console/tasks/7/why"


async def link_of(browser: httpx.AsyncClient, token: str) -> str:
    """What `orrery console` gets."""
    answer = await browser.post("/console/sign-in/links", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["success"], answer.text
    return str(answer.json()["data"]["path"])


async def test_who_is_not_signed_in_is_sent_to_sign_in_and_comes_back_to_the_same_page(
    visitor: httpx.AsyncClient,
) -> None:
    sent = await visitor.get(f"{WHY}?decision=3")
    assert sent.status_code == 303
    form = await visitor.get(sent.headers["location"])
    assert "orrery console /console/tasks/7/why?decision=3" in Page(form.text).text.replace("&amp;", "&")
    fields = Page(form.text).form_to("/console/sign-in")
    signed_in = await visitor.post("/console/sign-in", data={**fields, "token": token_for()})
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, f"{WHY}?decision=3")
    assert (await visitor.get(signed_in.headers["location"])).status_code == 200


async def test_the_cookie_is_for_the_console_alone_and_no_script_reads_it_or_the_token(
    visitor: httpx.AsyncClient,
) -> None:
    token = token_for()
    answer = await sign_in(visitor, token)
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith("orrery_console=")]
    assert {"HttpOnly", "Path=/console", "SameSite=lax"} <= set(cookie.split("; ")) and "Secure" not in cookie
    assert token not in cookie and token.split(".")[1] not in cookie
    assert token not in (await visitor.get("/console/")).text


async def test_behind_tls_cookies_are_sent_encrypted_only(api: StubbedApi) -> None:
    async with browser_at(console_over(api, console_public_url="https://console.example")) as browser:
        page = await browser.get("/console/sign-in")
        assert all("Secure" in one for one in page.headers.get_list("set-cookie"))


async def test_the_api_is_asked_with_the_token_of_who_signed_in_and_for_their_address(
    visitor: httpx.AsyncClient, api: StubbedApi
) -> None:
    token = token_for()
    await sign_in(visitor, token)
    api.asked.clear()
    await visitor.get("/console/tasks", headers={"X-Forwarded-For": "198.51.100.1"})
    assert {one.headers["authorization"] for one in api.asked} == {f"Bearer {token}"}
    assert {one.headers["x-forwarded-for"] for one in api.asked} == {"198.51.100.1, 192.0.2.7"}


async def test_a_token_that_is_not_believed_signs_nobody_in_and_the_page_says_why(
    visitor: httpx.AsyncClient, api: StubbedApi
) -> None:
    api.answers["system/get_attributes"] = lambda request: envelope(
        None, "the token has expired", success=False, status=401
    )
    answer = await sign_in(visitor)
    assert answer.status_code == 403 and "the token has expired" in answer.text
    assert "orrery_console=" not in str(answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize("token", ["", " ", "two words", "é", "x" * (MOST_TOKEN_CHARACTERS + 1), "a\x00b"])
async def test_what_is_no_token_is_refused_before_anybody_is_asked(
    visitor: httpx.AsyncClient, api: StubbedApi, token: str
) -> None:
    fields = Page((await visitor.get("/console/sign-in")).text).form_to("/console/sign-in")
    answer = await visitor.post("/console/sign-in", data={**fields, "token": token})
    assert answer.status_code == 403 and api.asked == []


async def test_a_session_that_is_too_large_for_a_cookie_is_refused_and_the_page_says_so(
    visitor: httpx.AsyncClient, api: StubbedApi
) -> None:
    """Browsers would drop the cookie, and ask for signing in again without a word."""
    known = RECORDED["system/get_attributes"]["data"]
    rights = known["environment"] | {"RIGHTS": "ü" * 1500}
    api.says("system/get_attributes", {**known, "environment": rights})
    answer = await sign_in(visitor)
    assert answer.status_code == 403 and f"at most {MOST_COOKIE_CHARACTERS} fit into a cookie" in answer.text
    assert "orrery_console=" not in str(answer.headers.get_list("set-cookie"))
    link = await visitor.post("/console/sign-in/links", headers={"Authorization": f"Bearer {token_for()}"})
    assert link.status_code == 400 and "fit into a cookie" in link.json()["message"]


@pytest.mark.parametrize("text", ["é" * 2000, "\U0001f680" * 2000, "\x00" * 2000, "\ud800 lone", "x" * 2000, ""])
async def test_what_is_told_on_the_next_page_fits_into_a_cookie_whatever_it_is(
    browser: httpx.AsyncClient, api: StubbedApi, text: str
) -> None:
    page = Page((await browser.get("/console/tasks/7/commands/kill")).text)
    body = json.dumps({"success": True, "message": text, "data": None})
    api.answers["task/kill"] = lambda request: httpx.Response(200, content=body)
    fields = page.form_to("/console/tasks/7/commands/kill")
    answer = await browser.post("/console/tasks/7/commands/kill", data=fields)
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith("orrery_console_said=")]
    assert answer.status_code == 303 and len(cookie.partition(";")[0]) < 4096
    assert (await browser.get(answer.headers["location"])).status_code == 200


async def test_a_session_ends_with_its_token(visitor: httpx.AsyncClient, clock: list[float]) -> None:
    await sign_in(visitor, token_for(seconds=1000))
    assert (await visitor.get(WHY)).status_code == 200
    clock[0] += 1001
    sent = await visitor.get(WHY)
    assert sent.status_code == 303 and sent.headers["location"].endswith("next=%2Fconsole%2Ftasks%2F7%2Fwhy")


async def test_a_token_that_was_revoked_meanwhile_sends_to_sign_in(browser: httpx.AsyncClient, api: StubbedApi) -> None:
    api.answers["explain/task"] = lambda request: envelope(None, "it was revoked", success=False, status=401)
    sent = await browser.get(WHY)
    assert sent.status_code == 303 and "/console/sign-in" in sent.headers["location"]
    part = await browser.get(WHY, headers={"HX-Request": "true"})
    assert part.status_code == 204 and "/console/sign-in" in part.headers["hx-redirect"]
    data = await browser.get(WHY, headers={"Accept": "application/json"})
    assert data.status_code == 401 and data.json()["title"] == "Sign in"


async def test_a_cookie_that_was_changed_is_nobody(browser: httpx.AsyncClient) -> None:
    word = browser.cookies["orrery_console"]
    for wrong in (word[:-2] + "AA", word[1:], "x", f"{word}A", "1.2.3"):
        answer = await browser.get("/console/", headers={"Cookie": f"orrery_console={wrong}"})
        assert answer.status_code == 303, wrong


async def test_a_link_signs_in_once_and_asks_who_opens_it_first(visitor: httpx.AsyncClient) -> None:
    link = await link_of(visitor, token_for())
    asked = await visitor.get(f"{link}?next={WHY}")
    assert "Go on only if you made the link yourself" in Page(asked.text).text
    assert "orrery_console=" not in str(asked.headers.get_list("set-cookie"))
    fields = Page(asked.text).form_to("/console/sign-in")
    signed_in = await visitor.post("/console/sign-in", data=fields)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, WHY)
    again = await visitor.post("/console/sign-in", data=fields)
    assert again.status_code == 403 and "was used before" in again.text
    assert (await visitor.get(link)).status_code == 403


async def test_a_page_for_signing_in_tells_its_address_to_nothing_that_it_loads(visitor: httpx.AsyncClient) -> None:
    link = await link_of(visitor, token_for())
    for path in (link, f"{link}A", "/console/sign-in"):
        assert (await visitor.get(path)).headers.get_list("referrer-policy") == ["no-referrer"], path
    await sign_in(visitor)
    assert (await visitor.get("/console/")).headers["referrer-policy"] == "same-origin", "forms go back to their page"


async def test_a_link_is_good_for_two_minutes(visitor: httpx.AsyncClient, clock: list[float]) -> None:
    link = await link_of(visitor, token_for())
    clock[0] += LINK_S
    answer = await visitor.get(link)
    assert answer.status_code == 403 and "too old" in answer.text


@pytest.mark.parametrize("authorization", ["", "Bearer", "Basic YQ==", "token"])
async def test_without_a_token_there_is_no_link(visitor: httpx.AsyncClient, authorization: str) -> None:
    answer = await visitor.post("/console/sign-in/links", headers={"Authorization": authorization})
    assert answer.status_code == 401 and not answer.json()["success"]


async def test_a_session_is_no_link_and_a_link_no_session(
    visitor: httpx.AsyncClient, browser: httpx.AsyncClient
) -> None:
    word = browser.cookies["orrery_console"]
    assert (await visitor.get(f"/console/sign-in/link/{word}")).status_code == 403
    link = (await link_of(visitor, token_for())).rpartition("/")[2]
    assert (await visitor.get("/console/", headers={"Cookie": f"orrery_console={link}"})).status_code == 303


async def test_whoever_signs_out_is_nobody(browser: httpx.AsyncClient) -> None:
    fields = Page((await browser.get("/console/")).text).form_to("/console/sign-out")
    assert (await browser.post("/console/sign-out", data=fields)).status_code == 303
    assert (await browser.get("/console/")).status_code == 303


async def forged(browser: httpx.AsyncClient, other: httpx.AsyncClient) -> list[dict[str, str]]:
    """What others could send: nothing, anything, and the token of their own session."""
    await sign_in(other)
    own = Page((await other.get("/console/tasks/7/commands/kill")).text).form_to("/console/tasks/7/commands/kill")
    return [{}, {"form": ""}, {"form": "x"}, {"form": browser.cookies["orrery_console"]}, own]


async def test_a_form_of_somebody_else_does_nothing(web: FastAPI, browser: httpx.AsyncClient, api: StubbedApi) -> None:
    async with browser_at(web) as other:
        for fields in await forged(browser, other):
            answer = await browser.post("/console/tasks/7/commands/kill", data=fields)
            assert answer.status_code == 403 and "Nothing was done" in answer.text, fields
    assert api.bodies("task/kill") == []


async def test_a_form_from_another_site_does_nothing_even_with_the_token(
    browser: httpx.AsyncClient, api: StubbedApi
) -> None:
    page = Page((await browser.get("/console/tasks/7/commands/kill")).text)
    fields = page.form_to("/console/tasks/7/commands/kill")
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        answer = await browser.post("/console/tasks/7/commands/kill", data=fields, headers=headers)
        assert answer.status_code == 403
    assert api.bodies("task/kill") == []


async def test_a_form_that_was_open_for_longer_than_a_day_does_nothing(api: StubbedApi, clock: list[float]) -> None:
    web = console_over(api, lambda: clock[0], console_session_h=48)
    async with browser_at(web) as browser:
        await sign_in(browser, token_for(seconds=10 * FORM_S))
        page = Page((await browser.get("/console/tasks/7/commands/kill")).text)
        clock[0] += FORM_S
        fields = page.form_to("/console/tasks/7/commands/kill")
        answer = await browser.post("/console/tasks/7/commands/kill", data=fields)
    assert answer.status_code == 403 and api.bodies("task/kill") == []


async def test_the_forms_of_one_page_differ_each_time(browser: httpx.AsyncClient) -> None:
    """Compressed pages tell nothing about what stays the same."""
    one, other = [Page((await browser.get("/console/")).text).form_to("/console/sign-out") for _ in range(2)]
    assert one["form"] != other["form"]


async def test_the_api_client_tells_what_is_not_orrery() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    api = Api(httpx.AsyncClient(transport=transport), "http://elsewhere", "t")
    with pytest.raises(Exception, match="is not answered by Orrery"):
        await api.get("task/list")
