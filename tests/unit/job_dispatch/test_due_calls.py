"""Calls after a while that share one timer."""

from __future__ import annotations

import asyncio

from services.job_dispatch.acquire.due_calls import DueCalls


async def test_calls_come_in_their_order_and_those_that_ended_do_not_come() -> None:
    due, called, done = DueCalls(), list[str](), asyncio.Event()
    due.begin(0.01, lambda: called.append("first"))
    due.end(due.begin(0.01, lambda: called.append("taken back")))
    due.begin(0.02, lambda: called.append("second"))
    due.begin(0.03, done.set)
    await asyncio.wait_for(done.wait(), 10)
    assert called == ["first", "second"]


async def test_a_call_that_begins_after_all_others_ended_comes_too() -> None:
    due, called, came = DueCalls(), list[str](), asyncio.Event()

    def call(name: str) -> None:
        called.append(name)
        came.set()

    for name in ("first", "second"):
        came.clear()
        due.begin(0.005, lambda name=name: call(name))
        await asyncio.wait_for(came.wait(), 10)
    assert called == ["first", "second"]


async def test_a_thousand_calls_have_one_timer() -> None:
    loop, due = asyncio.get_running_loop(), DueCalls()
    timers = []
    original = loop.call_later
    loop.call_later = lambda *arguments: timers.append(original(*arguments)) or timers[-1]  # type: ignore[method-assign]
    try:
        numbers = [due.begin(30.0, lambda: None) for _ in range(1000)]
    finally:
        loop.call_later = original  # type: ignore[method-assign]
    for number in numbers:
        due.end(number)
    assert len(timers) == 1
    timers[0].cancel()
