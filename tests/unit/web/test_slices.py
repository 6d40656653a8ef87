"""Long work in steps: what happens between two of them is bounded."""

from __future__ import annotations

import asyncio
import gc
import itertools
from typing import Any

import orjson
import pytest

from shared.model.steps import Steps, at_once
from shared.web import slices
from shared.web.json_text import PIECE_BYTES, BodyLimits, parse_json
from shared.web.slices import FREED_AT_ONCE, freed, given_back, in_slices, without_collections


class Counted(list[Any]):
    """A list that counts those that still live."""

    n_alive = 0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        Counted.n_alive += 1

    def __del__(self) -> None:
        Counted.n_alive -= 1


@pytest.mark.parametrize(
    "value",
    [
        lambda: [Counted([1]) for _ in range(20_000)],
        lambda: {str(n): Counted() for n in range(20_000)},
        lambda: {"a": {str(n): [Counted([1, 2, 3])] for n in range(20_000)}},
        lambda: [[Counted() for _ in range(200)] for _ in range(100)],
    ],
)
def test_a_large_value_is_freed_so_many_members_at_a_time(value: Any) -> None:
    given = value()
    steps, alive = freed(given), [Counted.n_alive]
    assert alive[0] == 20_000
    for _ in steps:
        alive.append(Counted.n_alive)
    alive.append(Counted.n_alive)
    assert alive[-1] == 0 and not given
    assert max(before - after for before, after in itertools.pairwise(alive)) <= 2 * FREED_AT_ONCE


async def test_between_two_returns_to_the_loop_only_a_small_piece_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time at all between two returns, each step shows: the bytes of a piece, and not more."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    parsed: list[int] = []
    loads = orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda text: parsed.append(len(text)) or loads(text))
    rows = [{"lfn": f"file{n}", "sizes": list(range(20))} for n in range(20_000)]
    raw = orjson.dumps({"rows": rows, "ids": list(range(200_000))})
    found = await parse_json(raw, BodyLimits(16 * 2**20, n_values=1_000_000))
    assert found == {"rows": rows, "ids": list(range(200_000))}
    assert max(parsed) <= 3 * PIECE_BYTES and sum(parsed) >= len(raw) // 2


async def test_the_loop_runs_before_between_and_after_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    order: list[str] = []

    def work() -> Steps[str]:
        for n in range(3):
            order.append(f"step {n}")
            yield
        return "done"

    async def others() -> None:
        for _ in range(5):
            order.append("others")
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    assert await in_slices(work()) == "done"
    await running
    assert order[:6] == ["others", "step 0", "others", "step 1", "others", "step 2"] and order[6] == "others"


async def test_what_was_parsed_before_an_error_was_seen_is_freed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def noted(value: Any) -> Steps[None]:
        taken.append(len(value["rows"]))
        yield from freed(value)

    monkeypatch.setattr("shared.web.json_text.freed", noted)
    raw = b'{"rows":[' + b"[1]," * 100_000 + b"[}]}"
    with pytest.raises(orjson.JSONDecodeError):
        await parse_json(raw, BodyLimits(16 * 2**20, n_values=1_000_000))
    raw = b'{"rows":[' + b"[1]," * 100_000 + b"[nonsense]]}"
    taken.clear()
    with pytest.raises(orjson.JSONDecodeError):
        await parse_json(raw, BodyLimits(16 * 2**20, n_values=1_000_000))
    assert len(taken) == 1 and taken[0] > 50_000


def test_the_collector_rests_until_the_last_large_value_has_gone() -> None:
    assert gc.isenabled()
    with without_collections():
        with without_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_steps_that_nobody_waits_for_run_at_once() -> None:
    def work() -> Steps[int]:
        yield
        return 7

    assert at_once(work()) == 7


async def test_items_that_another_takes_without_waiting_let_the_loop_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    order: list[str] = []

    async def others() -> None:
        for _ in range(3):
            order.append("others")
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    async for item in given_back(["one", "two", "three"]):
        order.append(item)
    await running
    assert order == ["others", "one", "others", "two", "others", "three"]
