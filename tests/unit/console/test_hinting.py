"""Hints: one a second for a subject, a second one after each, none lost without a word."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from services.console import hinting
from services.console.hinting import Hints, Listener
from services.console.sharing import Sharing

QUICK_S = 0.05


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second lasts 50 ms here."""
    monkeypatch.setattr(hinting, "GATHER_S", QUICK_S / 10)
    monkeypatch.setattr(hinting, "EVERY_S", QUICK_S)


async def told(listener: Listener) -> float:
    async with asyncio.timeout(5):
        await listener.woken.wait()
    listener.woken.clear()
    return time.time()


async def test_who_looks_at_a_subject_is_told_at_once_and_once_more() -> None:
    hints = Hints()
    looks, other = hints.listen(["task 7"]), hints.listen(["task 8"])
    begun = time.time()
    hints.note(["task 7"])
    first, second = await told(looks), await told(looks)
    # at once: a busy machine may take longer than the hints are apart here
    assert first - begun < 20 * QUICK_S and second - first > 0.8 * QUICK_S and not other.woken.is_set()


async def test_many_changes_are_one_hint_in_each_second() -> None:
    hints = Hints()
    looks = hints.listen(["task 7"])
    times, until = list[float](), time.time() + 6 * QUICK_S
    while time.time() < until:
        hints.note(["task 7"])
        await asyncio.sleep(QUICK_S / 20)
        if looks.woken.is_set():
            times.append(await told(looks))
    assert 4 <= len(times) <= 7
    assert all(later - sooner > 0.8 * QUICK_S for sooner, later in itertools.pairwise(times))


async def test_who_left_is_told_nothing_and_nothing_is_kept_of_it() -> None:
    hints = Hints()
    looks = hints.listen(["task 7", "task 8"])
    hints.note(["task 7"])
    hints.leave(looks)
    await asyncio.sleep(2 * QUICK_S)
    assert not looks.woken.is_set() and not hints._watched


async def test_what_changed_since_a_time_is_counted_and_what_was_before_is_not_known() -> None:
    hints = Hints()
    begun = time.time()
    assert hints.changed_since(["task 7"], begun - 10) is None
    hints.note(["task 7", "task 8"])
    assert hints.changed_since(["task 7", "task 8", "task 9"], begun) == 2
    assert hints.changed_since(["task 7"], time.time()) == 0


async def test_after_an_interruption_every_page_is_told_and_nothing_before_it_is_known() -> None:
    hints = Hints()
    looks = hints.listen(["task 7"])
    before = time.time()
    hints.interrupted()
    await told(looks)
    assert hints.changed_since(["task 7"], before) is None


async def test_what_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hinting, "MOST_KEPT", 3)
    hints = Hints()
    begun = time.time()
    for n in range(5):
        hints.note([f"task {n}"])
    assert hints.changed_since(["task 4"], begun) is None
    assert hints.changed_since(["task 4"], hints._known_since) == 1


async def test_the_same_question_is_asked_once_a_second_and_anew_after_a_change() -> None:
    now, asked = [100.0], list[int]()
    sharing = Sharing(lambda: now[0])

    async def make() -> int:
        asked.append(1)
        await asyncio.sleep(0)
        return len(asked)

    assert await asyncio.gather(*(sharing.get("a", 0.0, make) for _ in range(1000))) == [1] * 1000
    now[0] = 100.9
    assert await sharing.get("a", 0.0, make) == 1
    assert await sharing.get("a", 100.5, make) == 2, "it changed meanwhile"
    assert await sharing.get("b", 0.0, make) == 3
    now[0] = 102.0
    assert await sharing.get("a", 100.5, make) == 4


async def test_an_answer_that_failed_fails_for_all_who_asked() -> None:
    sharing = Sharing()

    async def make() -> int:
        await asyncio.sleep(0)
        raise ValueError("away")

    found = await asyncio.gather(*(sharing.get("a", 0.0, make) for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in found] == ["away"] * 3


async def test_a_clock_that_is_set_back_silences_no_page_and_keeps_no_old_answer() -> None:
    now = [1000.0]
    hints = Hints(lambda: now[0])
    looks = hints.listen(["task 7"])
    hints.note(["task 7"])
    await told(looks)
    now[0] -= 3600.0
    await told(looks)
    begun = time.monotonic()
    hints.note(["task 7"])
    await told(looks)
    assert time.monotonic() - begun < 5 * QUICK_S
    assert abs(hints.told_at("task 7") - time.monotonic()) < 1.0, "what is compared with it is not set back either"


async def test_pages_that_are_told_the_same_are_spread_and_one_alone_is_not() -> None:
    hints = Hints()
    alone, many = hints.listen(["task 7"]), [hints.listen(["task 8"]) for _ in range(1000)]
    assert hints.spread_s(alone) == 0.0
    assert 0.0 < hints.spread_s(many[0]) <= hinting.MOST_SPREAD_S < 0.5
