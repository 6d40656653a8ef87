"""The HTTP API as it was recorded of real services, and a browser at the console that asks it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
from fastapi import FastAPI

from services.console.app import service_of
from services.console.environment import ConsoleSettings
from shared.auth import Authority
from tests.applications import application_of

ADDRESS = "http://console"
API_URL = "http://api"
#: answers of a live system that ran the small demonstration, by path
RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))

#: what is answered to a question for one share
ONE_SHARE = "share/explain of one"

Answer = Callable[[httpx.Request], httpx.Response]


def envelope(data: Any, message: str = "", *, success: bool = True, status: int = 200, **more: Any) -> httpx.Response:
    return httpx.Response(status, json={"success": success, "message": message, "data": data, **more})


class StubbedApi:
    """Answers as recorded; `asked` is what was asked. A path may be away, or be given another answer."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.answers: dict[str, Answer] = {
            path: lambda request, body=body: httpx.Response(200, json=body) for path, body in RECORDED.items()
        }

    def away(self, *paths: str) -> None:
        def refuse(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("connection refused", request=request)

        self.answers |= dict.fromkeys(paths, refuse)

    def says(self, path: str, data: Any, message: str = "", **more: Any) -> None:
        self.answers[path] = lambda request: envelope(data, message, **more)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        path = request.url.path.removeprefix("/api/v1/")
        path = ONE_SHARE if path == "share/explain" and "gshare" in request.url.params else path
        if path not in self.answers:
            return envelope(None, f"no service has {request.url.path}", success=False, status=404)
        return self.answers[path](request)

    def bodies(self, path: str) -> list[Any]:
        """What was posted there."""
        return [json.loads(one.content) for one in self.asked if one.url.path == f"/api/v1/{path}"]

    def queries(self, path: str) -> list[dict[str, list[str]]]:
        """What was asked there."""
        return [parse_qs(one.url.query.decode()) for one in self.asked if one.url.path == f"/api/v1/{path}"]


def console_over(api: StubbedApi, clock: Callable[[], float] = time.time, **settings: Any) -> FastAPI:
    client = httpx.AsyncClient(transport=httpx.MockTransport(api))
    given = {"api_url": API_URL, "redis_url": None, **settings}
    service = service_of(ConsoleSettings(**given), client, clock)
    return application_of(service, Authority.generate())


def browser_at(web: FastAPI) -> httpx.AsyncClient:
    """One that keeps cookies, and says where its forms are from."""
    transport = httpx.ASGITransport(web, raise_app_exceptions=False, client=("192.0.2.7", 4000))
    headers = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "same-origin"}
    return httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers, timeout=30)


class Page(HTMLParser):
    """What a browser makes of a page: tags, links, forms and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "a":
            self.links.append(given.get("href", ""))
        if tag == "form":
            self.forms.append({"action": given.get("action", "")})
        if tag == "input" and given.get("type") == "hidden" and self.forms:
            self.forms[-1][given["name"]] = given.get("value", "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n\t]+", " ", "".join(self.words))

    def form_to(self, action: str) -> dict[str, str]:
        """The hidden fields of the form that is sent there."""
        (found,) = [one for one in self.forms if one["action"] == action]
        return {name: value for name, value in found.items() if name != "action"}


async def sign_in(browser: httpx.AsyncClient, token: str | None = None) -> httpx.Response:
    """As somebody does who pastes a token."""
    page = Page((await browser.get("/console/sign-in")).text)
    fields = page.form_to("/console/sign-in")
    return await browser.post("/console/sign-in", data={**fields, "token": token or token_for()})


def token_for(seconds: float = 3600.0) -> str:
    return Authority.generate().issue("ada", ["operator"], ["atlas"], lifetime_s=seconds)
