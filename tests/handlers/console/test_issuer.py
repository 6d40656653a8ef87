"""Signing in at an OpenID Connect issuer: a server of Authlib that asks for PKCE, and a browser in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx
import jwt
import pytest
from fastapi import FastAPI

from services.console.environment import ConsoleSettings
from services.console.identifying import SIGN_IN_S, Issuer
from tests import authlib_issuer
from tests.authlib_issuer import AuthlibIssuer, KnownClient
from tests.handlers.console.stubbed_api import ADDRESS, Page, StubbedApi, browser_at, console_over, envelope

BACK = f"{ADDRESS}/console/sign-in/back"
WHY = "/console/tasks/7/why?decision=3"
CLIENT = "orrery-console"


@pytest.fixture(scope="module")
def issuer() -> Iterator[AuthlibIssuer]:
    with authlib_issuer.running({"ada": {"groups": ["atlas"]}}) as issuer:
        issuer.clients.append(KnownClient(CLIENT, [BACK]))
        yield issuer


def console_at(issuer: AuthlibIssuer, api: StubbedApi, clock: list[float], **settings: Any) -> FastAPI:
    given = {"console_issuer": issuer.url, "console_client_id": CLIENT, "console_public_url": ADDRESS, **settings}
    return console_over(api, lambda: clock[0], **given)


@pytest.fixture
async def visitor(issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]) -> AsyncIterator[httpx.AsyncClient]:
    async with browser_at(console_at(issuer, api, clock)) as browser:
        yield browser


async def sent_to_issuer(browser: httpx.AsyncClient, after: str = WHY) -> str:
    """Where the link of the sign-in page leads."""
    page = Page((await browser.get("/console/sign-in", params={"next": after})).text)
    (link,) = [one for one in page.links if one.startswith("/console/sign-in/issuer")]
    answer = await browser.get(link)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def sent_back(address: str, name: str = "ada") -> str:
    """Where the issuer sends the browser of somebody who signed in there."""
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(address, data={"name": name})
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"]).removeprefix(ADDRESS)


def changed(address: str, **words: str | None) -> str:
    """The same address with other words behind its ?; None leaves one out."""
    parts = urlsplit(address)
    found = {name: values[0] for name, values in parse_qs(parts.query).items()} | words
    return urlunsplit(parts._replace(query=urlencode({name: one for name, one in found.items() if one is not None})))


async def test_who_signs_in_at_the_issuer_goes_on_at_the_page_that_was_wanted(
    visitor: httpx.AsyncClient, api: StubbedApi, issuer: AuthlibIssuer
) -> None:
    signed_in = await visitor.get(await sent_back(await sent_to_issuer(visitor)))
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, WHY), signed_in.text
    assert (await visitor.get(WHY)).status_code == 200
    (token,) = {one.headers["authorization"].removeprefix("Bearer ") for one in api.asked}
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["iss"], claims["aud"], claims["groups"]) == (issuer.url, [CLIENT], ["atlas"])


async def test_each_question_has_its_own_state_nonce_and_challenge(visitor: httpx.AsyncClient) -> None:
    asked = [parse_qs(urlsplit(await sent_to_issuer(visitor)).query) for _ in range(2)]
    assert all(asked[0][name] != asked[1][name] for name in ("state", "nonce", "code_challenge"))
    assert all(one["code_challenge_method"] == ["S256"] and one["redirect_uri"] == [BACK] for one in asked)


async def test_a_code_signs_in_once_and_only_the_browser_that_asked(
    visitor: httpx.AsyncClient, issuer: AuthlibIssuer, api: StubbedApi, clock: list[float]
) -> None:
    back = await sent_back(await sent_to_issuer(visitor))
    async with browser_at(console_at(issuer, api, clock)) as other:
        refused = await other.get(back)
        assert refused.status_code == 403 and "nobody asked to sign in at this browser" in refused.text
        await sent_to_issuer(other)
        refused = await other.get(back)
        assert refused.status_code == 403 and "nobody asked to sign in at this browser" in refused.text
    assert (await visitor.get(back)).status_code == 303
    again = await visitor.get(back)
    assert again.status_code == 403 and "nobody asked to sign in at this browser" in again.text


async def test_two_pages_of_one_browser_sign_in_at_once_and_each_goes_on_where_it_was(
    visitor: httpx.AsyncClient,
) -> None:
    first, second = await sent_to_issuer(visitor, WHY), await sent_to_issuer(visitor, "/console/jobs/7")
    for asked, after in ((first, WHY), (second, "/console/jobs/7")):
        answer = await visitor.get(await sent_back(asked))
        assert (answer.status_code, answer.headers.get("location")) == (303, after), answer.text


async def test_many_questions_are_not_all_kept(visitor: httpx.AsyncClient) -> None:
    for _ in range(12):
        last = await sent_to_issuer(visitor)
    assert len([name for name in visitor.cookies if name.startswith("orrery_console_asked_")]) <= 5
    assert (await visitor.get(await sent_back(last))).status_code == 303


async def test_who_is_refused_at_the_issuer_tries_again_for_the_same_page(visitor: httpx.AsyncClient) -> None:
    (state,) = parse_qs(urlsplit(await sent_to_issuer(visitor)).query)["state"]
    answer = await visitor.get("/console/sign-in/back", params={"state": state, "error": "access_denied"})
    assert answer.status_code == 403 and "the issuer refused: access_denied" in answer.text
    assert Page(answer.text).form_to("/console/sign-in")["next"] == WHY


async def test_a_document_of_the_issuer_that_cannot_be_used_is_asked_for_again(
    visitor: httpx.AsyncClient, issuer: AuthlibIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Issuer._answer

    async def faulty(self: Issuer, method: str, url: str, **arguments: Any) -> dict[str, Any]:
        return {**await real(self, method, url, **arguments), "token_endpoint": "http://iam.example.org/token"}

    monkeypatch.setattr(Issuer, "_answer", faulty)
    answer = await visitor.get("/console/sign-in/issuer")
    assert answer.status_code == 503 and "token_endpoint of the issuer: " in answer.text
    monkeypatch.setattr(Issuer, "_answer", real)
    assert (await visitor.get(await sent_back(await sent_to_issuer(visitor)))).status_code == 303


async def test_where_the_issuer_is_asked_is_looked_up_again_after_an_hour(
    visitor: httpx.AsyncClient, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    await sent_to_issuer(visitor)
    real = Issuer._answer

    async def moved(self: Issuer, method: str, url: str, **arguments: Any) -> dict[str, Any]:
        return {**await real(self, method, url, **arguments), "authorization_endpoint": "https://iam.example.org/a"}

    monkeypatch.setattr(Issuer, "_answer", moved)
    assert not (await sent_to_issuer(visitor)).startswith("https://iam.example.org/a")
    clock[0] += 3600.0
    assert (await sent_to_issuer(visitor)).startswith("https://iam.example.org/a?")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"state": "other"}, "nobody asked to sign in at this browser"),
        ({"state": None}, "nobody asked to sign in at this browser"),
        ({"state": "é"}, "nobody asked to sign in at this browser"),
        ({"iss": "https://elsewhere"}, "another issuer answers"),
        ({"code": None}, "the issuer refused: without a word"),
        ({"code": None, "error": "access_denied"}, "the issuer refused: access_denied"),
        ({"code": None, "error": "x", "error_description": "<script>no"}, "&lt;script&gt;no"),
        ({"code": "guessed"}, "the issuer refused:"),
    ],
)  # fmt: skip
async def test_what_comes_back_wrong_signs_nobody_in_and_the_page_says_why(
    visitor: httpx.AsyncClient, words: dict[str, str | None], said: str
) -> None:
    back = changed(await sent_back(await sent_to_issuer(visitor)), **words)
    answer = await visitor.get(back)
    assert answer.status_code == 403 and said in answer.text
    assert "orrery_console" not in visitor.cookies


async def test_who_was_refused_there_reads_so_here(visitor: httpx.AsyncClient) -> None:
    answer = await visitor.get(await sent_back(await sent_to_issuer(visitor), name="mallory"))
    assert answer.status_code == 403 and "the issuer refused:" in answer.text


async def test_who_takes_too_long_asks_again(visitor: httpx.AsyncClient, clock: list[float]) -> None:
    back = await sent_back(await sent_to_issuer(visitor))
    clock[0] += SIGN_IN_S
    answer = await visitor.get(back)
    assert answer.status_code == 403 and "too long ago" in answer.text


async def test_a_code_that_was_asked_for_with_another_verifier_is_worth_nothing(
    visitor: httpx.AsyncClient, issuer: AuthlibIssuer
) -> None:
    """The issuer itself refuses it: PKCE."""
    back = await sent_back(changed(await sent_to_issuer(visitor), code_challenge="A" * 43))
    answer = await visitor.get(back)
    assert answer.status_code == 403 and "Code challenge failed" in answer.text


async def test_a_token_with_another_nonce_is_refused(visitor: httpx.AsyncClient) -> None:
    back = await sent_back(changed(await sent_to_issuer(visitor), nonce="of-somebody-else"))
    answer = await visitor.get(back)
    assert answer.status_code == 403 and "made for something else (nonce)" in answer.text


async def test_a_token_that_the_api_does_not_believe_signs_nobody_in(
    visitor: httpx.AsyncClient, api: StubbedApi
) -> None:
    back = await sent_back(await sent_to_issuer(visitor))
    api.answers["system/get_attributes"] = lambda request: envelope(None, "not known", success=False, status=401)
    answer = await visitor.get(back)
    assert answer.status_code == 403 and "The token of the issuer is not believed: not known" in answer.text


async def test_a_confidential_client_shows_its_secret(
    issuer: AuthlibIssuer, api: StubbedApi, clock: list[float], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3 cret:é\n", encoding="utf-8")
    (tmp_path / "wrong").write_text("guessed\n")
    issuer.clients.append(KnownClient("confidential", [BACK], "s3 cret:é"))
    for name, status in (("secret", 303), ("wrong", 403)):
        settings = {"console_client_id": "confidential", "console_client_secret_file": tmp_path / name}
        async with browser_at(console_at(issuer, api, clock, **settings)) as browser:
            answer = await browser.get(await sent_back(await sent_to_issuer(browser)))
            assert answer.status_code == status, answer.text


async def test_while_the_issuer_is_away_other_ways_are_left(api: StubbedApi, clock: list[float]) -> None:
    settings = {"console_issuer": "http://127.0.0.1:1", "console_client_id": CLIENT, "console_public_url": ADDRESS}
    async with browser_at(console_over(api, lambda: clock[0], **settings)) as browser:
        answer = await browser.get("/console/sign-in/issuer", params={"next": WHY})
        assert answer.status_code == 503 and "the issuer 127.0.0.1 cannot be asked: ConnectError" in answer.text
        assert Page(answer.text).form_to("/console/sign-in")["next"] == WHY


async def test_without_an_issuer_no_page_offers_one(browser: httpx.AsyncClient) -> None:
    assert "sign-in/issuer" not in (await browser.get("/console/sign-in")).text
    assert (await browser.get("/console/sign-in/issuer")).status_code == 404
    assert (await browser.get("/console/sign-in/back?code=a&state=b")).status_code == 403


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"console_issuer": "http://iam.example.org"}, "allowed: https://..., or http:// of this machine"),
        ({"console_issuer": "https://iam.example.org"}, "needs console_client_id, and console_public_url"),
        ({"console_issuer": "https://iam.example.org", "console_client_id": "c"}, "and console_public_url"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ConsoleSettings(**settings)
