"""Real sockets whose request never becomes whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from shared.auth.addresses import Proxies
from shared.runtime.web import HttpServer
from shared.web.connections import Connections, Pace
from shared.web.half_open import LARGEST_HEAD_BYTES, WholeRequestProtocol

REQUEST = b"POST /length HTTP/1.1\r\nHost: s\r\nContent-Length: 5\r\n\r\n"


#: more than the systems between two sockets keep
MANY = 16 * 1024 * 1024


async def _many(request: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * MANY)


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


@pytest.fixture
def connections() -> Connections:
    return Connections(most_slow=20, proxies=Proxies([ip_network("127.0.0.8/32")]))


@pytest.fixture
async def port(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(WholeRequestProtocol, "pace", Pace(silent_s=0.3, slow_s=0.1, begin_s=0.3, bytes_per_s=1000))
    web = Starlette(routes=[Route("/length", _length, methods=["POST"]), Route("/many", _many)])
    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=1, connections=connections)
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


async def test_of_one_address_few_requests_may_arrive_slowly_and_another_address_goes_on(
    port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WholeRequestProtocol, "pace", Pace(slow_s=0.3, begin_s=20.0))
    opened = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0)) for _ in range(60)]
    for _, writer in opened:
        writer.write(REQUEST + b"a")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST + b"abcde")
    assert b"5 bytes" in await asyncio.wait_for(reader.readuntil(b"bytes"), 1)
    told = await asyncio.gather(*(asyncio.wait_for(one.read(), 5) for one, _ in opened), return_exceptions=True)
    cut = [one for one in told if isinstance(one, bytes)]
    assert len(cut) == 40 and all(b"more than 20 requests from 127.0.0.9 arrive slowly" in one for one in cut)
    for _, one in [*opened, (reader, writer)]:
        one.close()
    async with asyncio.timeout(5):
        while connections.n_open:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_callers_that_have_not_begun_are_not_slow_and_are_answered_when_they_do(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WholeRequestProtocol, "pace", Pace(slow_s=0.1, begin_s=20.0))
    opened = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0)) for _ in range(60)]
    await asyncio.sleep(0.5)  # the point of the test is time
    for _, writer in opened:
        writer.write(REQUEST + b"abcde")
    for reader, writer in opened:
        assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"bytes"), 5)
        writer.close()


async def test_a_proxy_connects_long_before_it_sends_and_what_it_begins_has_its_time(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.8", 0))
    await asyncio.sleep(0.6)  # twice what a request may take
    writer.write(REQUEST + b"abcde")
    assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"bytes"), 5)
    writer.write(REQUEST + b"abc")
    assert b"not complete after 0.3 s" in await asyncio.wait_for(reader.read(), 5)
    writer.close()


async def test_who_takes_no_answer_is_cut_and_who_takes_it_slowly_gets_it_whole(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /many HTTP/1.1\r\nHost: s\r\n\r\n")
    await asyncio.sleep(1.5)  # the point of the test is time
    n_bytes = 0
    with contextlib.suppress(ConnectionError):
        while part := await asyncio.wait_for(reader.read(2**20), 10):
            n_bytes += len(part)
    assert n_bytes < MANY
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /many HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n")
    n_bytes = 0
    while part := await asyncio.wait_for(reader.read(2**20), 10):
        n_bytes += len(part)
        await asyncio.sleep(0.0005)
    assert n_bytes > MANY
    writer.close()
