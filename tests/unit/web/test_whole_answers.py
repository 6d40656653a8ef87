"""Answers in one write: HTTP as before, whoever serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from shared.runtime.web import HttpServer
from shared.web.whole_answers import WHOLE, answer_json

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def whole(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await answer_json(scope, send, b'{"a":1}')


async def begun_already(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": WHOLE, "body": b"12345"})


@pytest.fixture
async def served() -> AsyncIterator[Callable[[App], Awaitable[int]]]:
    servers = []

    async def serve(app: App) -> int:
        web = Starlette()
        web.router = app  # type: ignore[assignment]
        server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=1)
        await server.start()
        servers.append(server)
        return server.port

    yield serve
    for server in servers:
        await server.stop()


async def said(port: int, request: bytes, n_answers: int) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answers = [await asyncio.wait_for(reader.readuntil(b"}"), 10) for _ in range(n_answers)]
    writer.close()
    return answers


async def test_an_answer_has_its_status_date_type_length_and_body(served) -> None:
    (answer,) = await said(await served(whole), GET, 1)
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK" and body == b'{"a":1}'
    assert b"content-type: application/json" in lines and b"content-length: 7" in lines
    assert any(line.startswith(b"date: ") for line in lines)


async def test_requests_sent_one_after_the_other_before_the_answers_are_all_answered(served) -> None:
    assert len(await said(await served(whole), GET * 3, 3)) == 3


async def test_a_caller_that_closes_is_told_so_and_closed(served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", await served(whole))
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)  # to the end of the connection
    assert b"connection: close\r\n" in answer and answer.endswith(b'{"a":1}')
    writer.close()


async def test_an_answer_that_was_begun_cannot_be_followed_by_a_whole_one(served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", await served(begun_already))
    writer.write(GET)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert b"12345" not in answer
    writer.close()


async def test_a_server_without_the_extension_gets_head_and_body() -> None:
    transport = httpx.ASGITransport(app=whole)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, "application/json", {"a": 1})
