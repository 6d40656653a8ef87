"""Shares between two readings: what is granted counts at once."""

from __future__ import annotations

import random
from collections import Counter
from heapq import heappop, heappush

import pytest

from shared.order.share_order import LAG_S, ORDER_EVERY_S, ShareOrder
from shared.order.tree import Node

HALVES = [Node("A", 50), Node("B", 50)]
BOTH_WAIT = {"A": 1, "B": 1}


def test_a_grant_puts_its_share_behind_one_that_used_as_much() -> None:
    order = ShareOrder(10.0)
    assert order.read(HALVES, {"A": 100.0, "B": 100.0}, {}, BOTH_WAIT, 0.0).order == ("A", "B")
    ranks = order.granted([("A", "Q", 1)], ORDER_EVERY_S)
    assert ranks is not None and ranks.order == ("B", "A")


def test_a_core_counts_with_the_benchmark_of_its_queue() -> None:
    order = ShareOrder(10.0)
    order.read(HALVES, {}, {"STRONG": 30.0}, BOTH_WAIT, 0.0)
    ranks = order.granted([("A", "STRONG", 1), ("B", "Q", 2)], 1.0)
    assert ranks is not None and ranks.order == ("B", "A")


def test_an_order_is_kept_for_a_moment() -> None:
    order = ShareOrder(10.0)
    order.read(HALVES, {}, {}, BOTH_WAIT, 0.0)
    assert order.granted([("A", "Q", 5)], ORDER_EVERY_S / 2) is None
    ranks = order.granted([], 2 * ORDER_EVERY_S)
    assert ranks is not None and ranks.order == ("B", "A")


def test_what_a_reading_may_not_have_yet_is_counted_after_it_and_the_rest_is_not() -> None:
    order = ShareOrder(10.0)
    order.read(HALVES, {}, {}, BOTH_WAIT, 0.0)
    order.granted([("A", "Q", 5)], 8.0)
    assert order.read(HALVES, {}, {}, BOTH_WAIT, 9.0).order == ("B", "A")
    assert order.read(HALVES, {}, {}, BOTH_WAIT, 9.0 + LAG_S + 1).order == ("A", "B")


@pytest.mark.parametrize("values", [(50, 30, 15, 5), (25, 25, 25, 25), (90, 8, 1, 1)])
def test_shares_get_their_targets_in_ten_hours_of_saturated_demand(values: tuple[int, ...]) -> None:
    """2 000 slots, jobs of 10 to 110 minutes; what executes is read every 10 s, and is then 10 s old."""
    nodes = [Node(f"S{number}", value) for number, value in enumerate(values)]
    order, rng, n_slots, hours = ShareOrder(10.0), random.Random(7), 2000, 10
    waiting = {node.name: 1 for node in nodes}
    ends: list[tuple[float, str]] = [(rng.uniform(0, 3600), "S0") for _ in range(n_slots)]
    ends.sort()
    running, used_s = Counter({"S0": n_slots}), Counter[str]()
    read_at, known = 0.0, dict(running)
    ranks = order.read(nodes, {name: 10.0 * n for name, n in known.items()}, {}, waiting, 0.0)
    while ends[0][0] < hours * 3600:
        now, ended = heappop(ends)
        if now - read_at >= 10.0:
            read_at = now
            ranks = order.read(nodes, {name: 10.0 * n for name, n in known.items()}, {}, waiting, now)
            known = dict(running)
        running[ended] -= 1
        share = ranks.order[0] if ranks.order[0] != "Test" else ranks.order[1]
        length = rng.uniform(600, 6600)
        heappush(ends, (now + length, share))
        running[share] += 1
        if now > 7200:  # the first two hours only undo how it began
            used_s[share] += int(min(length, hours * 3600 - now))
        ranks = order.granted([(share, "Q", 1)], now) or ranks
    for node in nodes:
        got = 100 * used_s[node.name] / used_s.total()
        assert got == pytest.approx(node.value, abs=2), dict(used_s)


def test_picks_by_age_do_not_take_shares_from_their_targets() -> None:
    """As above; a tenth of the picks goes by age, and the oldest jobs are all of the smallest share."""
    nodes = [Node(f"S{number}", value) for number, value in enumerate((50, 30, 15, 5))]
    order, rng, n_slots, hours = ShareOrder(10.0), random.Random(7), 1000, 10
    waiting = {node.name: 1 for node in nodes}
    ends: list[tuple[float, str]] = sorted((rng.uniform(0, 3600), "S0") for _ in range(n_slots))
    running, used_s, n_by_age = Counter({"S0": n_slots}), Counter[str](), 0
    read_at, known = 0.0, dict(running)
    ranks = order.read(nodes, {name: 10.0 * n for name, n in known.items()}, {}, waiting, 0.0)
    while ends[0][0] < hours * 3600:
        now, ended = heappop(ends)
        if now - read_at >= 10.0:
            read_at, known = now, dict(running)
            ranks = order.read(nodes, {name: 10.0 * n for name, n in known.items()}, {}, waiting, now)
        running[ended] -= 1
        by_age = rng.random() < 0.1 and "S3" in ranks.not_above_due
        share, length = "S3" if by_age else ranks.order[0], rng.uniform(600, 6600)
        n_by_age += by_age
        heappush(ends, (now + length, share))
        running[share] += 1
        if now > 7200:
            used_s[share] += int(min(length, hours * 3600 - now))
        ranks = order.granted([(share, "Q", 1)], now) or ranks
    assert n_by_age > 100
    for node in nodes:
        assert 100 * used_s[node.name] / used_s.total() == pytest.approx(node.value, abs=2), dict(used_s)
