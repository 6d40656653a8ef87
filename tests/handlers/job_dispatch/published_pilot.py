"""Requests as published pilots send them: each generation has its own encoding and headers."""

from __future__ import annotations

import gzip
from typing import Any

import httpx
import orjson

LEGACY = "/server/panda"
# what it says in every call of these
ALWAYS: dict[str, dict[str, Any]] = {"updateJob": {"attemptNr": 1}}


async def by_urllib(client: httpx.AsyncClient, method: str, **fields: Any) -> httpx.Response:
    """The newest pilot: gzipped JSON without a Content-Encoding, and no Accept."""
    request = client.build_request(
        "POST",
        f"{LEGACY}/{method}",
        content=gzip.compress(orjson.dumps(ALWAYS.get(method, {}) | fields)),
        headers={"Content-Type": "application/json"},
    )
    del request.headers["accept"]
    return await client.send(request)


async def by_curl(client: httpx.AsyncClient, method: str, **fields: Any) -> httpx.Response:
    """The oldest pilot that is in use: a form, and it accepts JSON."""
    data = {key: str(value) for key, value in (ALWAYS.get(method, {}) | fields).items()}
    return await client.post(f"{LEGACY}/{method}", data=data, headers={"Accept": "application/json"})
