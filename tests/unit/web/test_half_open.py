"""Real sockets whose request never becomes whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from shared.runtime.web import HttpServer
from shared.web.half_open import LARGEST_HEAD_BYTES, WholeRequestProtocol

REQUEST = b"POST /length HTTP/1.1\r\nHost: s\r\nContent-Length: 5\r\n\r\n"


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(WholeRequestProtocol, "whole_within_s", 0.3)
    web = Starlette(routes=[Route("/length", _length, methods=["POST"])])
    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=1)
    await server.start()
    yield server.port
    await server.stop()


@pytest.mark.parametrize(
    "sent", [b"", b"POST /len", REQUEST[:-2], REQUEST + b"abc", REQUEST + b"abcde" + REQUEST], ids=repr
)
async def test_a_connection_whose_request_is_not_whole_in_time_is_closed(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await asyncio.wait_for(reader.read(), 60)  # to its end: the server closes it
    writer.close()
    assert b" 408 " in answer and b"not complete after 0.3 s" in answer
    assert (b"5 bytes" in answer) == (REQUEST + b"abcde" in sent)


async def test_a_connection_that_trickles_is_closed_although_it_is_never_silent(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def trickle() -> None:
        while not writer.is_closing():
            writer.write(b"X-More: 1\r\n")
            await asyncio.sleep(0.02)  # the point of the test is time

    writer.write(REQUEST[:-2])
    trickling = asyncio.create_task(trickle())
    answer = await asyncio.wait_for(reader.read(65536), 60)
    trickling.cancel()
    writer.close()
    assert b" 408 " in answer


async def test_headers_without_end_are_refused(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST[:-2] + b"X-More: 1\r\n" * (LARGEST_HEAD_BYTES // 8))
    answer = await asyncio.wait_for(reader.read(65536), 60)
    writer.close()
    assert b" 431 " in answer


async def test_whole_requests_on_one_connection_are_answered_however_long_it_lives(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(4):
        writer.write(REQUEST + b"abc")
        await writer.drain()
        writer.write(b"de")
        assert b"5 bytes" in await asyncio.wait_for(reader.readuntil(b"bytes"), 60), number
        await asyncio.sleep(0.15)  # together longer than one request may take
    writer.close()
