"""Health pages, logging, plugin discovery."""

from __future__ import annotations

import logging

import httpx
import orjson
import pytest
from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry, Counter

from shared.plugins import PluginError, candidates, discovery, find
from shared.runtime.logs import JsonFormatter
from shared.runtime.web import HttpServer, add_health


def _application(problems: list[str]) -> FastAPI:
    web = FastAPI()
    registry = CollectorRegistry()
    Counter("things", "Things", registry=registry).inc(3)

    @web.get("/{anything:path}")
    def catch_all(anything: str) -> str:
        return "caught"

    async def ready() -> list[str]:
        return problems

    add_health(web, ready=ready, registries=[registry])
    return web


async def test_the_peer_of_a_request_is_who_sent_it_whatever_its_headers_say() -> None:
    web = FastAPI()

    @web.get("/peer")
    def peer(request: Request) -> str:
        return str(request.client and request.client.host)

    server = HttpServer(web, host="127.0.0.1", port=0, graceful_stop_s=1)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        assert (await client.get("/peer", headers={"X-Forwarded-For": "10.1.0.1"})).json() == "127.0.0.1"
    await server.stop()


async def test_health_pages_go_before_the_applications_own_routes() -> None:
    problems: list[str] = []
    server = HttpServer(_application(problems), host="127.0.0.1", port=0, graceful_stop_s=1)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        assert (await client.get("/livez")).text == "ok\n"
        assert (await client.get("/readyz")).json() == {"ready": True, "problems": []}
        problems.append("queue x is not consumed")
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["problems"]) == (503, ["queue x is not consumed"])
        assert "things_total 3.0" in (await client.get("/metrics")).text
        assert (await client.get("/other")).json() == "caught"
    await server.stop()
    assert not server.alive


async def test_a_taken_port_is_an_error() -> None:
    first = HttpServer(_application([]), host="127.0.0.1", port=0, graceful_stop_s=1)
    await first.start()
    with pytest.raises(OSError, match="in use"):
        await HttpServer(_application([]), host="127.0.0.1", port=first.port, graceful_stop_s=1).start()
    await first.stop()


def test_a_line_of_the_json_log_is_one_object_with_the_exception_in_it() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord("a.b", logging.ERROR, "f.py", 1, "task %d", (5,), (type(error), error, None))
    line = JsonFormatter("watchdog").format(record)
    assert "\n" not in line
    found = orjson.loads(line)
    assert (found["message"], found["process"], found["level"]) == ("task 5", "watchdog", "ERROR")
    assert "two" in found["exception"]


def test_the_closest_plugin_name_comes_first() -> None:
    assert candidates("atlas", "managed") == ("atlas.managed", "atlas.any", "any.managed", "any.any")
    assert candidates("", "managed") == ("any.managed", "any.any")


class _Entry:
    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value

    def load(self) -> str:
        if self.value == "broken":
            raise ImportError("no module named x")
        return self.value


def _install(monkeypatch: pytest.MonkeyPatch, *entries: _Entry) -> None:
    monkeypatch.setattr(discovery, "entry_points", lambda group: entries)


def test_a_vo_without_a_plugin_of_its_own_gets_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _Entry("any.any", "general"), _Entry("atlas.any", "atlas"))
    assert find("orrery.job_brokerage", "ATLAS", "managed") == "atlas"
    assert find("orrery.job_brokerage", "cms", "managed") == "general"


@pytest.mark.parametrize(
    ("group", "entries", "reason"),
    [
        ("orrery.job_brokerage", [], "installed are none"),
        ("orrery.job_brokerage", [("any.any", "a"), ("any.any", "b")], "given twice"),
        ("orrery.job_brokerage", [("any.any", "broken")], "cannot be loaded: no module named x"),
        ("orrery.nonsense", [], "plugin group 'orrery.nonsense': allowed are"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_named(
    monkeypatch: pytest.MonkeyPatch, group: str, entries: list[tuple[str, str]], reason: str
) -> None:
    _install(monkeypatch, *(_Entry(*entry) for entry in entries))
    with pytest.raises(PluginError, match=reason):
        find(group, "atlas", "managed")
