"""What a service lets in, over ASGI: limits per call, room for so many, and nothing beyond either."""

from __future__ import annotations

import asyncio
import gzip
from typing import Annotated, Any

import httpx
import orjson
import pytest
from fastapi import APIRouter, Body, FastAPI

from shared.auth import Authority
from shared.web.intake import Room
from shared.web.json_route import JsonRoute
from shared.web.json_text import BodyLimits
from shared.web.service import install

LARGE = BodyLimits(4 * 2**20, n_values=100_000)


def application(authority: Authority, room: Room | None = None, go_on: asyncio.Event | None = None) -> FastAPI:
    web = FastAPI()
    router = APIRouter(route_class=JsonRoute)

    @router.post("/small")
    async def small(content: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return {"n": len(content)}

    @router.post("/large")
    async def large(content: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        if go_on is not None:
            await go_on.wait()
        return {"n": len(content["ids"])}

    web.include_router(router)
    install(web, authority, {"/large": LARGE}, room)
    return web


def client(web: FastAPI, authority: Authority | None) -> httpx.AsyncClient:
    headers = {"Content-Type": "application/json"}
    if authority is not None:
        headers["Authorization"] = f"Bearer {authority.issue('p', ['pilot'])}"
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://s", headers=headers)


IDS = orjson.dumps({"ids": list(range(60_000))})


@pytest.mark.parametrize(
    ("path", "content", "status", "said"),
    [
        ("/small", b'{"a":1}', 200, '"n":1'),
        ("/small", b'{"a":"' + b"x" * 70_000 + b'"}', 413, "at most 65536"),
        ("/small", b'{"a":' + b"[" * 9_000 + b"]" * 9_000 + b"}", 413, "nested deeper than 50"),
        ("/small", b'{"a":[' + b"1," * 12_000 + b"1]}", 413, "more than 10000 values"),
        ("/small", gzip.compress(b"[" * 20_000_000), 413, "at most 65536"),
        ("/small", b"\x1f\x8bno gzip", 400, "broken gzip"),
        ("/small", b'{"a":"\\ud800"}', 200, "is not JSON"),
        ("/small", b'{"a":', 200, "is not JSON"),
        ("/small", b"", 200, "is needed"),
        ("/large", IDS, 200, '"n":60000'),
        ("/large", b'{"ids":[' + b"1," * 120_000 + b"1]}", 413, "more than 100000 values"),
        ("/large", b'{"ids":[' + b"1," * 60_000 + b"1}", 200, "is not JSON"),
        ("/large", b" " * 5_000_000, 413, "at most 4194304"),
    ],
)
async def test_a_body_is_counted_before_it_is_parsed(
    authority: Authority, path: str, content: bytes, status: int, said: str
) -> None:
    async with client(application(authority), authority) as pilot:
        answer = await pilot.post(path, content=content)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


async def test_a_large_body_is_read_from_callers_with_a_token_only(authority: Authority) -> None:
    async with client(application(authority), None) as stranger:
        answer = await stranger.post("/large", content=IDS)
    assert answer.status_code == 413 and "at most 65536" in answer.json()["message"]


async def test_a_body_without_a_stated_length_is_read_up_to_its_limit_only(authority: Authority) -> None:
    n_sent = 0

    async def endless() -> Any:
        nonlocal n_sent
        while True:
            n_sent += 10_000
            yield b"x" * 10_000

    async with client(application(authority), authority) as pilot:
        answer = await pilot.post("/small", content=endless())
    assert answer.status_code == 413 and n_sent <= 80_000


async def test_beyond_so_many_requests_or_bytes_callers_are_told_when_to_come_again(authority: Authority) -> None:
    go_on, room = asyncio.Event(), Room(most_requests=3, most_bytes=2 * len(IDS))
    async with client(application(authority, room, go_on), authority) as pilot:
        waiting = [asyncio.create_task(pilot.post("/large", content=IDS)) for _ in range(2)]
        while room.n_bytes < 2 * len(IDS):  # noqa: ASYNC110  (there is no event for it)
            await asyncio.sleep(0)
        by_bytes = await pilot.post("/large", content=IDS)
        waiting.append(asyncio.create_task(pilot.post("/large", content=b"")))
        full = Room(most_requests=0)
        by_number = await client(application(authority, full), authority).post("/small", content=b"{}")
        go_on.set()
        answers = [(await one).status_code for one in waiting]
        after = await pilot.post("/large", content=IDS)
    for refused, said in ((by_bytes, "bytes"), (by_number, "requests wait")):
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "5" and said in refused.text
    assert answers[:2] == [200, 200] and after.status_code == 200
    assert (room.n_requests, room.n_bytes) == (0, 0)
