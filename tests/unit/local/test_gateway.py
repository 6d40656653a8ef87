"""The gateway of `make up`, before copies of services that tell what they were asked."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from deploy.local.gateway import Copies, serve
from deploy.local.gateway_rooms import Memory, Places, Rooms
from deploy.local.ports import LOOPBACK, free_port


class Copy:
    """A copy of a service: tells what it was asked, or does what the test says."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self.gone, self.goes_on = asyncio.Event(), asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        if request.path.endswith("/hang"):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.gone.set()
                raise
        if request.path.endswith("/break"):
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if request.path.endswith("/half"):
            assert request.transport is not None
            size = int(request.query.get("size", "14"))
            answer = web.StreamResponse(headers={"Content-Length": str(2 * size)})
            await answer.prepare(request)
            await answer.write(b"x" * size)
            request.transport.close()
            return answer
        if request.path.endswith("/hints"):
            answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await answer.prepare(request)
            try:
                for number in itertools.count():
                    await answer.write(f"data: {number}\n\n".encode())
                    await self.goes_on.wait()
                    self.goes_on.clear()
            except asyncio.CancelledError:
                self.gone.set()
                raise
        body = await request.read()
        told = {"path": request.raw_path, "headers": {key.lower(): one for key, one in request.headers.items()}}
        return web.json_response(
            {**told, "body": body.hex(), "method": request.method}, status=418, headers={"X-Own": "1"}
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Copy]:
        server = web.Server(self.handle, handler_cancellation=True, auto_decompress=False, max_line_size=100_000)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        assert site._server is not None
        self.url = f"http://{LOOPBACK}:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
        try:
            yield self
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def gateway(
    tmp_path: Path, urls: dict[str, list[str]], proxies: tuple[str, ...] = ()
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway whose record names these copies, and that trusts TLS proxies of these networks."""
    record = tmp_path / "run.json"
    record.write_text(json.dumps({"urls": urls}))
    stop, port = asyncio.Event(), free_port()
    running = asyncio.create_task(serve(LOOPBACK, port, Copies(record), stop, tuple(map(ip_network, proxies))))
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", timeout=10, trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.ConnectError):
                if (await client.get("/readyz")).status_code == 200:
                    break
            await asyncio.sleep(0.01)
        yield client
    stop.set()
    await running


async def test_a_request_and_its_answer_are_handed_on_as_they_came(tmp_path: Path) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [copy.url]}) as client:
        body = gzip.compress(b"{}")
        request = client.build_request(
            "POST",
            "/server/panda/updateJob?a=%2F&b=1",
            content=body,
            headers={"Content-Encoding": "gzip", "Authorization": "Bearer t"},
        )
        del request.headers["accept"]
        answer = await client.send(request)
    told = answer.json()
    assert answer.status_code == 418 and answer.headers["x-own"] == "1" and told["method"] == "POST"
    assert told["path"] == "/server/panda/updateJob?a=%2F&b=1" and bytes.fromhex(told["body"]) == body
    headers = told["headers"]
    assert headers["authorization"] == "Bearer t" and headers["content-encoding"] == "gzip"
    assert "accept" not in headers, "a pilot that sends no Accept is answered otherwise than one that does"


async def test_a_certificate_is_handed_on_for_tls_proxies_alone_and_the_address_of_the_caller_always(
    tmp_path: Path,
) -> None:
    told = {"X-SSL-Client-S-DN": "CN=alice", "X-SSL-Client-Verify": "SUCCESS", "X-SSL-Client-FQAN": "/atlas"}
    for proxies, n_told in (((), 0), (("192.0.2.0/24",), 0), (("127.0.0.0/8",), 3)):
        async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [copy.url]}, proxies) as client:
            answer = await client.get("/server/panda/getJob", headers=told)
        headers = answer.json()["headers"]
        assert sum(name.lower() in headers for name in told) == n_told
        assert headers["x-forwarded-for"] == LOOPBACK


async def test_an_address_with_a_whole_report_in_it_is_handed_on(tmp_path: Path) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [copy.url]}) as client:
        answer = await client.get("/server/panda/updateJob", params={"xml": "x" * 7_000, "metaData": "y" * 30_000})
    assert answer.status_code == 418 and len(answer.json()["path"]) > 37_000


@pytest.mark.parametrize(
    ("path", "service"),
    [("/api/v1/task/submit", "task-definition"), ("/cache/schedconfig/Q.all.json", "job-brokerage"),
     ("/cache/ddmendpoints.json", "job-brokerage"), ("/server/panda/getJob", "job-dispatch"),
     ("/api/v1/pilot/acquire_jobs", "job-dispatch"), ("/api/v1/check", "watchdog")],
)  # fmt: skip
async def test_a_path_goes_to_the_service_that_the_gateway_of_the_containers_sends_it_to(
    tmp_path: Path, path: str, service: str
) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {service: [copy.url]}) as client:
        assert (await client.get(path)).status_code == 418
        assert (await client.get("/nothing")).status_code == 404 and copy.asked == 1


async def test_copies_take_turns_and_one_that_is_down_is_passed_over(tmp_path: Path) -> None:
    async with Copy().running() as first, Copy().running() as second:
        urls = [first.url, f"http://{LOOPBACK}:{free_port()}", second.url]
        async with gateway(tmp_path, {"job-dispatch": urls}) as client:
            answers = [await client.get("/api/v1/job/list") for _ in range(12)]
    assert {one.status_code for one in answers} == {418}
    assert first.asked + second.asked == 12 and min(first.asked, second.asked) >= 4


@pytest.mark.parametrize("path", ["/server/panda/getJob", "/server/panda/updateJob", "/api/v1/pilot/update_job"])
async def test_a_service_that_is_down_is_told_as_the_caller_understands_it(tmp_path: Path, path: str) -> None:
    async with gateway(tmp_path, {}) as client:
        answer = await client.post(path, content=b"{}")
    if path.endswith("getJob"):
        assert (answer.status_code, answer.json()["StatusCode"]) == (200, 10)
    elif path.endswith("updateJob"):
        assert answer.status_code == 503 and answer.headers["content-type"].startswith("text/plain")
    else:
        assert answer.status_code == 503 and answer.json()["success"] is False and answer.headers["retry-after"]


async def test_a_copy_that_takes_no_connection_is_passed_over_and_the_caller_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.gateway.CONNECT_TIMEOUT_S", 0.2)
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(socket.create_server((LOOPBACK, 0), backlog=0))
        address = busy.getsockname()
        for _ in range(3):  # a full queue of connections: whoever connects now waits
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        full = f"http://{LOOPBACK}:{address[1]}"
        async with gateway(tmp_path, {"job-dispatch": [full]}) as client:
            answer = await client.get("/api/v1/job/1")
        assert answer.status_code == 503 and answer.headers["retry-after"] == "5"
        async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [full, copy.url]}) as client:
            assert [(await client.get("/api/v1/job/1")).status_code for _ in range(2)] == [418, 418]


async def test_as_many_pages_at_once_as_have_places_are_all_answered_by_calls_through_the_same_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is one that waits for all others before it asks."""
    monkeypatch.setattr(
        "deploy.local.gateway.rooms_of_others", lambda: Rooms(Places(3, 3, 9), Places(1, 1), Memory(9, 9))
    )
    monkeypatch.setattr(
        "deploy.local.gateway.rooms_of_pages", lambda: Rooms(Places(3, 3, 9), Places(1, 1), Memory(9, 9))
    )
    all_hold = asyncio.Barrier(3)

    class Console(Copy):
        client: httpx.AsyncClient

        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            await all_hold.wait()
            asked = await asyncio.gather(*(self.client.get("/api/v1/job/list") for _ in range(3)))
            return web.json_response([one.status_code for one in asked])

    async with (
        Console().running() as console,
        Copy().running() as copy,
        gateway(tmp_path, {"console": [console.url], "job-dispatch": [copy.url]}) as console.client,
    ):
        pages = await asyncio.gather(*(console.client.get("/console/tasks") for _ in range(3)))
    assert [one.json() for one in pages] == [[418] * 3] * 3


async def test_a_request_that_may_have_reached_a_copy_is_not_sent_to_another(tmp_path: Path) -> None:
    async with (
        Copy().running() as first,
        Copy().running() as second,
        gateway(tmp_path, {"job-dispatch": [first.url, second.url]}) as client,
    ):
        answer = await client.post("/api/v1/pilot/break", content=b"{}")
    assert answer.status_code == 502 and first.asked + second.asked == 1


async def test_an_answer_that_breaks_off_at_the_service_breaks_off_for_the_caller_too(tmp_path: Path) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [copy.url]}) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/api/v1/job/half", params={"size": 3_000_000})
        small = await client.get("/api/v1/job/half")
        assert small.status_code == 502, "of a small one nothing was sent yet"
        assert (await client.get("/api/v1/job/list")).status_code == 418


async def test_a_caller_that_goes_ends_its_request_at_the_service_too(tmp_path: Path) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {"job-dispatch": [copy.url]}) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/api/v1/job/hang", timeout=0.3)
        async with asyncio.timeout(5):
            await copy.gone.wait()


async def test_hints_for_open_pages_are_handed_on_one_by_one_and_end_when_the_page_is_left(tmp_path: Path) -> None:
    async with Copy().running() as copy, gateway(tmp_path, {"console": [copy.url]}) as client:
        async with asyncio.timeout(10), client.stream("GET", "/console/hints?of=x") as answer:
            parts = answer.aiter_text()
            for number in range(3):
                assert await anext(parts) == f"data: {number}\n\n"
                copy.goes_on.set()
        await asyncio.wait_for(copy.gone.wait(), 10)


def test_copies_that_start_later_are_found_and_a_record_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    copies = Copies(record)
    copies.look()
    assert copies.of("watchdog") == []
    record.write_text(json.dumps({"urls": {"watchdog": ["http://a", "http://b"]}}))
    copies.look()
    assert [copies.of("watchdog")[0] for _ in range(4)] == ["http://a", "http://b"] * 2
    record.write_text("{")
    copies.look()
    assert sorted(copies.of("watchdog")) == ["http://a", "http://b"]
