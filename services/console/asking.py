"""Asks the HTTP API as the person who signed in; what it refuses, and who is away, become exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

API = "/api/v1"
NOT_FOUND = 2
CONNECT_TIMEOUT_S, TIMEOUT_S, SLOW_TIMEOUT_S = 3.0, 15.0, 60.0
MOST_CONNECTIONS = 200
#: answers of more bytes are read, and shown, beside the loop, which answers others meanwhile
LARGE_BYTES = 200_000
#: errors after which nothing can have been done
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class SignedOut(Exception):
    """The token is not believed, or not any more; the text says why."""


class Refused(Exception):
    """The API does not do it, or does not tell it; `problems`: which value, and what is allowed."""

    def __init__(self, message: str, problems: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class NotPermitted(Refused):
    """It is for others."""


class NotThere(Refused):
    """There is nothing of this name or id, or nothing that is told to this person."""


class Away(Exception):
    """A service does not answer, or cannot now."""


class NotKnown(Away):
    """It was sent, and no answer came: whether it was carried out is not known."""


@dataclass(frozen=True)
class Answer:
    """What the API said of something that it did."""

    data: Any
    message: str


@dataclass(frozen=True)
class Parts:
    """What a page is made of; a part that could not be had is None, and `away` says why."""

    data: dict[str, Any] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)


class Api:
    """One caller. `forwarded_for`: from where the browser calls, so that limits are its own."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, token: str, forwarded_for: str = "") -> None:
        self._http = http
        self._base_url = base_url
        self.n_bytes = 0
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if forwarded_for:
            self._headers["X-Forwarded-For"] = forwarded_for

    async def get(self, path: str, *, timeout_s: float = TIMEOUT_S, **query: Any) -> Any:
        """Ask; what is None or empty is left out.

        Raises SignedOut, NotPermitted, NotThere, Refused, Away.
        """
        return (await self.answer(path, timeout_s=timeout_s, **query)).data

    async def answer(self, path: str, *, timeout_s: float = TIMEOUT_S, **query: Any) -> Answer:
        """Ask for what is said with the answer, too. Raises the same."""
        wanted = {name: value for name, value in query.items() if value not in (None, "", [])}
        return await self._call("GET", path, timeout_s, params=wanted)

    async def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Have something done. Raises the same."""
        return await self._call("POST", path, TIMEOUT_S, json=dict(body))

    async def parts(self, **questions: Awaitable[Any]) -> Parts:
        """Ask several at once: who is away, or does not tell, is missing in the answer.

        Raises SignedOut, and NotThere where the first one finds nothing.
        """
        answers = await asyncio.gather(*questions.values(), return_exceptions=True)
        found = Parts()
        for place, (name, answer) in enumerate(zip(questions, answers, strict=True)):
            if isinstance(answer, SignedOut) or (isinstance(answer, NotThere) and place == 0):
                raise answer
            if isinstance(answer, Refused | Away):
                found.data[name], found.away[name] = None, str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.data[name] = answer
        return found

    async def _call(self, method: str, path: str, timeout_s: float, **arguments: Any) -> Answer:
        url = f"{self._base_url}{API}/{path}"
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            response = await self._http.request(method, url, headers=self._headers, timeout=timeout, **arguments)
        except NOT_SENT as error:
            raise Away(f"/{path} cannot be asked: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            is_late = isinstance(error, httpx.TimeoutException)
            what = f"no answer to /{path} within {timeout_s:g} s" if is_late else f"/{path}: {type(error).__name__}"
            if method == "POST":
                unknown = "it is not known whether it was carried out: look before you give it again"
                raise NotKnown(f"{what}: {unknown}") from None
            raise Away(what if is_late else f"/{path} cannot be asked: {type(error).__name__}") from None
        self.n_bytes += len(response.content)
        if len(response.content) < LARGE_BYTES:
            return _answer(path, response, _parsed(response.content))
        return _answer(path, response, await asyncio.to_thread(_parsed, response.content))


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        return None


def _answer(path: str, response: httpx.Response, body: Any) -> Answer:
    if not isinstance(body, dict) or "success" not in body:
        raise Away(f"/{path} is not answered by Orrery (HTTP {response.status_code}): does ORRERY_API_URL lead to it?")
    message, problems = str(body.get("message") or ""), body.get("problems") or ()
    if response.status_code == 401:
        raise SignedOut(message)
    if response.status_code == 403 or (body["success"] is False and body.get("data") == 3):
        raise NotPermitted(message, problems)
    if response.status_code == 429 or response.status_code >= 500:
        raise Away(message or f"/{path} failed with HTTP {response.status_code}")
    if response.status_code == 404 or (body["success"] is False and body.get("data") == NOT_FOUND):
        raise NotThere(message, problems)
    if response.status_code >= 400 or body["success"] is False:
        raise Refused(message, problems)
    return Answer(body.get("data"), message)


def open_client() -> httpx.AsyncClient:
    """Open what keeps connections to the API.

    A proxy meant for the outside world does not see these calls.
    """
    return httpx.AsyncClient(
        trust_env=False, limits=httpx.Limits(max_connections=MOST_CONNECTIONS), follow_redirects=False
    )
