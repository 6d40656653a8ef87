"""What arrives together is done together, and what is held waits by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from services.job_dispatch.coalescing import HELD, Coalescer, CoalescerLimits, LockedItem, TooLate

LIMITS = CoalescerLimits(concurrency=1, held_tries=3, held_after_s=0.0)


class Rows:
    """Answers with the item itself, or HELD for those in `held`; `batches` is what it was asked."""

    def __init__(self, *held: str) -> None:
        self.held, self.batches = set(held), list[list[str]]()

    async def run(self, items: Sequence[str]) -> Sequence[str | LockedItem]:
        self.batches.append(list(items))
        return [HELD if one in self.held else one for one in items]


async def test_items_that_are_held_are_given_up_after_a_number_of_tries_and_the_others_are_answered_at_once() -> None:
    rows = Rows("b")
    coalescer: Coalescer[str, str] = Coalescer(rows.run, key=lambda one: one, limits=LIMITS)
    a, b, c = await asyncio.gather(*map(coalescer.submit, "abc"), return_exceptions=True)
    assert (a, c) == ("a", "c") and isinstance(b, TooLate) and "another transaction holds" in str(b)
    assert rows.batches == [["a", "b", "c"], ["b"], ["b"], ["b"]]


async def test_an_item_that_is_held_is_answered_when_it_is_free_and_the_next_of_its_key_after_it() -> None:
    rows = Rows("b1")
    limits = CoalescerLimits(concurrency=1, held_tries=1000, held_after_s=0.0)
    coalescer: Coalescer[str, str] = Coalescer(rows.run, key=lambda one: one[0], limits=limits)
    first = asyncio.create_task(coalescer.submit("b1"))
    second = asyncio.create_task(coalescer.submit("b2"))
    assert await coalescer.submit("a1") == "a1"
    assert ["b2"] not in rows.batches and not first.done()
    rows.held.clear()
    assert (await first, await second) == ("b1", "b2")
    assert rows.batches.index(["b2"]) > rows.batches.index(["b1"])


@pytest.mark.parametrize("n_items", [1, 5])
async def test_an_item_that_fails_harms_only_itself(n_items: int) -> None:
    async def run(items: Sequence[int]) -> Sequence[int]:
        if 0 in items:
            raise ValueError("bad item")
        return items

    coalescer: Coalescer[int, int] = Coalescer(run, key=lambda one: one, limits=LIMITS)
    answers = await asyncio.gather(*map(coalescer.submit, range(n_items)), return_exceptions=True)
    assert isinstance(answers[0], ValueError) and answers[1:] == list(range(1, n_items))


async def test_where_little_arrives_nobody_waits_for_others() -> None:
    rows = Rows()
    limits = CoalescerLimits(concurrency=1, collect_s=10.0, worth=100)
    coalescer: Coalescer[str, str] = Coalescer(rows.run, key=lambda one: one, limits=limits)
    async with asyncio.timeout(5.0):
        for item in "abc":
            assert await coalescer.submit(item) == item
    assert rows.batches == [["a"], ["b"], ["c"]]


async def test_where_much_arrives_a_transaction_is_waited_for_and_each_item_gets_its_own_result() -> None:
    rows = Rows()
    limits = CoalescerLimits(concurrency=2, collect_s=0.05, worth=1)
    coalescer: Coalescer[str, str] = Coalescer(rows.run, key=lambda one: one, limits=limits)
    busy = [str(number) for number in range(40)]
    assert await asyncio.gather(*map(coalescer.submit, busy)) == busy
    rows.batches.clear()
    first = asyncio.create_task(coalescer.submit("a"))
    await asyncio.sleep(0.01)
    assert await coalescer.submit("b") == "b" and await first == "a"
    assert rows.batches == [["a", "b"]]


async def test_a_whole_batch_is_not_waited_for() -> None:
    rows = Rows()
    limits = CoalescerLimits(batch=10, concurrency=1, collect_s=3600.0, worth=1)
    coalescer: Coalescer[str, str] = Coalescer(rows.run, key=lambda one: one, limits=limits)
    async with asyncio.timeout(10.0):
        await asyncio.gather(*(coalescer.submit(str(number)) for number in range(100)))
    assert set(map(len, rows.batches)) == {10}


async def test_an_item_of_a_collected_batch_that_fails_is_tried_alone() -> None:
    tried: list[list[int]] = []

    async def run(items: Sequence[int]) -> Sequence[int]:
        tried.append(list(items))
        if 7 in items:
            raise ValueError("bad item")
        return items

    limits = CoalescerLimits(batch=20, concurrency=1, collect_s=0.05, worth=1)
    coalescer: Coalescer[int, int] = Coalescer(run, key=lambda one: one, limits=limits)
    await asyncio.gather(*(coalescer.submit(100 + number) for number in range(40)))
    tried.clear()
    answers = await asyncio.gather(*map(coalescer.submit, (6, 7, 8)), return_exceptions=True)
    assert (answers[0], answers[2]) == (6, 8) and isinstance(answers[1], ValueError)
    assert tried == [[6, 7, 8], [6], [7], [8]]
