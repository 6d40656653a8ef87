"""HTTP of the fleet: kept-alive connections to every copy of a service, in turn.

A failure counts as no reply.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import aiohttp

TIMEOUT_S = 30.0
#: pilots have a connection each; below the 1 024 files that a process may have open where nobody says otherwise
MOST_CONNECTIONS = 900
PREFIX = "/api/v1/"


class NotAllowed(Exception):
    """The token was refused: no pilot will ever get anything."""


class Connection:
    """One client for all pilots.

    `call` returns the envelope's data, or None where there was no usable reply.
    """

    def __init__(self, urls: Mapping[str, Sequence[str]], token: str) -> None:
        self._urls = {service: tuple(found) for service, found in urls.items()}
        self._turns = {service: itertools.cycle(range(len(found))) for service, found in self._urls.items()}
        self._token = token
        self._session: aiohttp.ClientSession | None = None
        self.n_calls = 0
        self.n_unanswered = 0

    async def __aenter__(self) -> Connection:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"},
            connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS, keepalive_timeout=60),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self, service: str, path: str, fields: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Any:
        """POST with fields, GET without. Raises NotAllowed."""
        assert self._session is not None
        urls = self._urls[service]
        first = next(self._turns[service])
        headers = {"Idempotency-Key": key} if key else {}
        self.n_calls += 1
        for place in range(len(urls)):
            url = urls[(first + place) % len(urls)] + PREFIX + path
            try:
                return await self._one(url, fields, headers)
            except aiohttp.ClientConnectorError:
                continue  # nothing was sent: another copy may be asked
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                break  # it is unknown whether it arrived: asking again is the pilot's decision
        self.n_unanswered += 1
        return None

    async def _one(self, url: str, fields: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Any:
        """One request to one copy. Raises ValueError for a reply that is not an envelope."""
        assert self._session is not None
        method = "GET" if fields is None else "POST"
        async with self._session.request(method, url, json=fields, headers=headers) as response:
            if response.status in (401, 403):
                raise NotAllowed((await response.text())[:300])
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}")
            body = await response.json(content_type=None)
        if not isinstance(body, dict):
            raise ValueError("not an envelope")
        data = body.get("data")
        return {} if data is None else data
