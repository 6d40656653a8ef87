"""A connection to the broker that is closed under our feet is told in one line, without a traceback."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from faststream.rabbit import RabbitQueue

from shared.messaging.consumers import Consumers
from shared.messaging.relay import Relay, is_bus_error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError('<RobustConnection: "amqp://127.0.0.1/" 0 channels> connection closed'), True),
        (RuntimeError("Connection was not opened"), True),
        (ConnectionResetError("reset by peer"), True),
        (RuntimeError("dictionary changed size during iteration"), False),
        (ValueError("closed"), False),
    ],
)
def test_a_closed_connection_is_no_error_of_ours(error: Exception, expected: bool) -> None:
    assert is_bus_error(error) is expected


@pytest.mark.parametrize(
    ("text", "traceback"), [("the connection closed", False), ("dictionary changed size during iteration", True)]
)
async def test_the_relay_tells_a_closed_connection_without_a_traceback(
    text: str, traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    relay: Any = object.__new__(Relay)
    failed = asyncio.Event()

    async def publish_once() -> int:
        failed.set()
        raise RuntimeError(text)

    relay.publish_once = publish_once
    with caplog.at_level(logging.WARNING):
        running = asyncio.create_task(relay.run())
        await failed.wait()
        await asyncio.sleep(0)
        running.cancel()
    # a pool of an earlier test may tell that it lost its database
    [record] = [one for one in caplog.records if one.name == "shared.messaging.relay"]
    assert text in caplog.text and (record.exc_info is not None) is traceback


@pytest.mark.parametrize(
    ("text", "traceback"), [("the connection closed", False), ("dictionary changed size during iteration", True)]
)
async def test_a_consumer_tells_a_closed_connection_without_a_traceback(
    text: str, traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    consumers: Any = object.__new__(Consumers)
    consumers._topology = SimpleNamespace(events_exchange="events")
    consumers._draining, consumers._in_flight = False, set()
    handlers: list[Any] = []
    consumers.broker = SimpleNamespace(subscriber=lambda *_, **__: handlers.append)

    async def acknowledge(message: Any) -> None:
        raise RuntimeError(text)

    consumers._subscribe(RabbitQueue("q"), 1, acknowledge)
    with caplog.at_level(logging.WARNING):
        await handlers[0](None)
    [record] = [one for one in caplog.records if one.name == "shared.messaging.consumers"]
    assert text in caplog.text and (record.exc_info is not None) is traceback and not consumers._in_flight


async def test_the_relay_goes_on_after_the_size_of_the_outbox_could_not_be_read() -> None:
    relay: Any = object.__new__(Relay)
    relay._woken, relay._last_pass_at, relay.last_error = asyncio.Event(), 0.0, None
    passes: asyncio.Queue[int] = asyncio.Queue()
    measured: list[str] = []

    async def publish_once() -> int:
        await passes.put(len(measured))
        return 0

    async def measure() -> None:
        measured.append("the server restarts" if not measured else "")
        if measured[-1]:
            raise ConnectionResetError(measured[-1])

    relay.publish_once, relay._gauge = publish_once, SimpleNamespace(measure=measure)
    running = asyncio.create_task(relay.run())
    assert [await asyncio.wait_for(passes.get(), 30) for _ in range(2)] == [0, 1]
    assert not running.done()
    running.cancel()


async def test_the_relay_goes_on_after_a_lost_connection_cancelled_what_it_awaited() -> None:
    relay: Any = object.__new__(Relay)
    passes: asyncio.Queue[None] = asyncio.Queue()

    async def publish_once() -> int:
        await passes.put(None)
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return int(await future)

    relay.publish_once = publish_once
    running = asyncio.create_task(relay.run())
    for _ in range(2):
        await asyncio.wait_for(passes.get(), 30)
    assert relay.problem() == "ConnectionError: a lost connection cancelled what waited for it"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
