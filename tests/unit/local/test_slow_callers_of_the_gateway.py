"""Callers without a token that hold up the gateway: others go on, and the slow ones are cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from deploy.local.gateway import Copies, serve
from deploy.local.ports import LOOPBACK, free_port
from shared.auth.addresses import Proxies
from shared.web.connections import Connections, Pace
from shared.web.file_limit import raise_file_limit
from tests.drawn import one_of_two
from tests.unit.local.slow_callers import ANSWER, BODY, HEADERS, slow_callers

#: as a gateway's, but soon
PACE = Pace(silent_s=6.0, slow_s=1.0, begin_s=6.0)
#: shorter than slow requests hold a place, yet long where attackers and gateway share one process
OTHERS_WAIT_S = 5.0
N_SLOW = 600
SEVERAL = [f"127.0.0.{number}" for number in range(2, 8)]
LARGE = 8 * 1024 * 1024


class Service:
    """Answers at once, some with much; counts the requests that it works on."""

    def __init__(self) -> None:
        self.url = ""
        self.n_open = 0
        self.n_asked = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.n_asked += 1
        self.n_open += 1
        try:
            await request.read()
            if request.path.endswith("/large"):
                answer = web.StreamResponse()
                await answer.prepare(request)
                for _ in range(LARGE // 65536):
                    await answer.write(b"x" * 65536)
                return answer
            return web.Response(text="done")
        finally:
            self.n_open -= 1


@dataclass
class Attacked:
    port: int
    service: Service
    connections: Connections
    client: httpx.AsyncClient
    cut: Counter[str]

    async def others_go_on(self) -> None:
        """Health, an acquire and a read of somebody else, each before a slow request would be cut."""
        for method, path in (
            ("GET", "/livez"),
            ("GET", "/readyz"),
            ("POST", "/api/v1/pilot/acquire_jobs"),
            ("POST", "/server/panda/getJob"),
            ("GET", "/api/v1/task/list"),
        ):
            async with asyncio.timeout(OTHERS_WAIT_S):
                answer = await self.client.request(method, path, content=b"{}" if method == "POST" else None)
            assert answer.status_code == 200 and answer.text.strip() in ("ok", "done"), path


@pytest.fixture
async def attacked(tmp_path: Path) -> AsyncIterator[Attacked]:
    if raise_file_limit() < 3 * N_SLOW:
        pytest.skip("this system lets a process open too few files")
    service = Service()
    runner = web.ServerRunner(web.Server(service.handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, 0)
    await site.start()
    service.url = f"http://{LOOPBACK}:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]
    record = tmp_path / "run.json"
    record.write_text(json.dumps({"urls": {"job-dispatch": [service.url], "task-definition": [service.url]}}))
    cut = Counter[str]()
    stop, port = asyncio.Event(), free_port()
    connections = Connections(most_slow=100, count=lambda why: cut.update([why]))
    running = asyncio.create_task(serve(LOOPBACK, port, Copies(record), stop, connections=connections, pace=PACE))
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=10, trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.ConnectError):
                if (await client.get("/readyz")).status_code == 200:
                    break
            await asyncio.sleep(0.01)
        yield Attacked(port, service, connections, client, cut)
    stop.set()
    await running
    await runner.cleanup()


@pytest.mark.parametrize("addresses", one_of_two("127.0.0.9", " ".join(SEVERAL)))
@pytest.mark.parametrize(
    ("begin", "more"),
    [(BODY % b"/api/v1/task/submit", b"x"), (BODY % b"/api/v1/pilot/acquire_jobs", b"x"),
     (HEADERS % b"/api/v1/pilot/acquire_jobs", b"A"), (b"", b"")],
    ids=["bodies", "bodies to pilots' paths", "headers", "nothing"],
)  # fmt: skip
async def test_slow_requests_cost_the_services_nothing_and_are_cut(
    attacked: Attacked, addresses: str, begin: bytes, more: bytes
) -> None:
    async with slow_callers(attacked.port, addresses.split(), N_SLOW, begin, more) as callers:
        before = attacked.service.n_asked
        await attacked.others_go_on()
        assert attacked.service.n_asked == before + 3, "the slow ones have reached no service"
        async with asyncio.timeout(20):
            for one in callers:
                await one.was_cut.wait()
        assert sum(b" 408 " in one.told for one in callers) > N_SLOW // 4, "where it has not crossed with a byte"
        await attacked.others_go_on()
    async with asyncio.timeout(5):
        while attacked.connections.n_open > 1 or attacked.service.n_open:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_of_one_address_only_so_many_requests_may_arrive_slowly(attacked: Attacked) -> None:
    begin = BODY % b"/api/v1/task/submit"
    async with slow_callers(attacked.port, ["127.0.0.9"], 150, begin, b"x", 0.5) as callers:
        async with asyncio.timeout(20):
            for one in callers:
                await one.was_cut.wait()
    # on a busy machine the first are cut, and leave their places, before the last are slow
    assert attacked.cut["slow"] > 0 and attacked.cut["slow"] + attacked.cut["late"] == 150
    assert any(b"more than 100 requests from 127.0.0.9 arrive slowly" in one.told for one in callers)


async def test_who_takes_a_large_answer_by_the_byte_is_cut_and_leaves_room_for_others(attacked: Attacked) -> None:
    begin = ANSWER % b"/api/v1/task/large"
    async with slow_callers(attacked.port, ["127.0.0.9"], 200, begin, b"") as callers:
        await attacked.others_go_on()
        assert attacked.service.n_open <= 50, "one address has but some of the connections to services"
        async with asyncio.timeout(60):
            while attacked.connections.n_open > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await attacked.others_go_on()
        assert len(callers) == attacked.cut["answer"] == 200


async def test_a_body_that_comes_slowly_but_steadily_enough_arrives(attacked: Attacked) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 1024
            await asyncio.sleep(0.1)  # 10 KB/s for five seconds, longer than a request may take at first

    answer = await attacked.client.post("/api/v1/task/submit", content=body())
    assert answer.text == "done"


async def test_a_large_body_without_credentials_is_refused_and_with_them_handed_on(attacked: Attacked) -> None:
    before = attacked.service.n_asked
    answer = await attacked.client.post("/api/v1/file_server/upload", content=b"x" * 3_000_000)
    assert answer.status_code == 413 and "header 'Authorization'" in answer.json()["message"]
    assert attacked.service.n_asked == before
    for headers in ({}, {"Expect": "100-continue"}):
        headers |= {"Authorization": "Bearer x"}
        answer = await attacked.client.post("/api/v1/file_server/upload", content=b"x" * 900_000, headers=headers)
        assert answer.text == "done"


async def test_when_there_are_too_many_connections_the_one_that_waited_longest_is_closed(
    attacked: Attacked,
) -> None:
    attacked.connections.most_of_one = 20
    async with slow_callers(attacked.port, ["127.0.0.9"], 40, b"", b"", 5.0) as callers:
        async with asyncio.timeout(5):
            for one in callers[:20]:
                await one.was_cut.wait()
        assert not any(one.was_cut.is_set() for one in callers[20:])
        await attacked.others_go_on()


async def test_neither_answer_nor_log_holds_a_header_that_cannot_be_read(
    attacked: Attacked, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for size in (20_000, 200_000):
        secret = "s3cr3t" * (size // 6)
        reader, writer = await asyncio.open_connection("127.0.0.1", attacked.port)
        writer.write(f"GET /api/v1/task/list HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {secret}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert b" 400 " in answer and b"at most 16384 bytes" in answer
        assert b"s3cr3t" not in answer and "s3cr3t" not in caplog.text


async def test_behind_a_trusted_proxy_each_caller_has_an_address_of_its_own() -> None:
    connections = Connections(most_slow=1, most_of_one=1, proxies=Proxies([ip_network("10.0.0.0/8")]), most=10)
    assert connections.slow("") and connections.slow(""), "a proxy speaks for many"
    assert connections.slow("192.0.2.1") and not connections.slow("192.0.2.1") and connections.slow("192.0.2.2")
