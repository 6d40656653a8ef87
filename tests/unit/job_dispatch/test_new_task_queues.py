"""A new task queue among very many gets a priority in proportion, without the calculation of all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.acquire.task_queue_orders import TaskQueueOrders
from services.job_dispatch.policy.new_task_queues import GROWTH, NewTaskQueues
from services.job_dispatch.store import task_queues as store
from shared.config.parameters import Parameters
from shared.order.identity import TaskQueueIdentity
from shared.order.task_queues import Corrections, GroupProperties, WaitingQueue, prioritised

GROUP = ("demo", "g")


def queue(number: int, user: str = "ann", n_jobs: int = 1) -> WaitingQueue:
    """A task queue of its own job type."""
    return WaitingQueue(number, TaskQueueIdentity("demo", user, "g", job_types=(f"t{number}",)), {1: n_jobs})


def calculated(queues: list[WaitingQueue], properties: GroupProperties) -> tuple[NewTaskQueues, dict[int, float]]:
    groups = {GROUP: properties}
    found = list(prioritised(queues, groups))
    new = NewTaskQueues()
    new.calculated(found, groups)
    return new, {one.task_queue_id: one.priority for one in found}


@given(
    jobs=st.lists(st.integers(1, 9), min_size=200, max_size=400),
    added=st.integers(1, 3),
    is_shared=st.booleans(),
    correction=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_the_price_of_a_new_queue_is_that_of_a_calculation_but_for_the_growth(
    jobs: list[int], added: int, is_shared: bool, correction: float
) -> None:
    properties = GroupProperties(job_share=1e6, job_sharing=is_shared)
    corrections = Corrections({GROUP: correction}, {(*GROUP, "ann"): correction})
    queues = [queue(number, n_jobs=n) for number, n in enumerate(jobs)]
    one = queue(len(jobs), n_jobs=added)
    groups = {GROUP: properties}
    new = NewTaskQueues()
    new.calculated(list(prioritised(queues, groups, corrections=corrections)), groups)
    found = new.priced(GROUP, [one], properties, corrections, "sum")
    exact = {o.task_queue_id: o.priority for o in prioritised([*queues, one], groups, corrections=corrections)}
    if added > GROWTH * sum(jobs):
        assert found is None
    else:
        assert found is not None
        assert exact[len(jobs)] <= found[len(jobs)] * 1.000001 <= exact[len(jobs)] * (1 + GROWTH) * 1.000002


def test_an_entity_that_grew_too_much_is_calculated_again() -> None:
    new, known = calculated([queue(number) for number in range(300)], GroupProperties())
    prices = [new.priced(GROUP, [queue(300 + number)], GroupProperties(), Corrections(), "sum") for number in range(4)]
    assert prices[:3] == [{300 + number: known[0]} for number in range(3)] and prices[3] is None


def test_a_new_user_among_many_gets_what_each_of_them_has_and_one_among_few_changes_all() -> None:
    users = [queue(number, f"user{number}") for number in range(200)]
    new, known = calculated(users, GroupProperties())
    assert new.priced(GROUP, [queue(900, "new")], GroupProperties(), Corrections(), "sum") == {900: known[0]}
    few, _ = calculated(users[:50], GroupProperties())
    assert few.priced(GROUP, [queue(900, "new")], GroupProperties(), Corrections(), "sum") is None


def test_background_work_takes_nothing_and_unknown_groups_are_calculated() -> None:
    properties = GroupProperties(job_sharing=True, allows_background=True)
    new, _ = calculated([queue(number) for number in range(200)], properties)
    background = WaitingQueue(900, queue(900).identity, {0: 5})
    assert new.priced(GROUP, [background], properties, Corrections(), "sum") == {900: 0.001}
    assert new.priced(("demo", "other"), [queue(901)], GroupProperties(), Corrections(), "sum") is None


@asynccontextmanager
async def nothing() -> AsyncIterator[Any]:
    yield None


async def test_a_new_queue_of_a_large_group_changes_its_own_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    n_known, asked = 2_000, list[Any]()

    async def order_keys(_: Any, keys: list[int]) -> list[dict[str, Any]]:
        sets: dict[str, Any] = {"sites": [], "banned_sites": [], "platforms": [], "tags": []}
        row = {"vo": "demo", "user_name": "ann", "user_group": "g", "cpu_segment_s": 360, "user_priority": 1, **sets}
        return [{**row, "order_key_id": key, "task_queue_id": key, "job_types": [f"t{key}"]} for key in keys]

    async def waiting_jobs(_: Any, keys: list[int] | None = None) -> dict[int, int]:
        asked.append(keys)
        return dict.fromkeys(range(1, n_known + 1) if keys is None else keys, 1)

    async def no_groups(_: Any) -> dict[Any, Any]:
        return {}

    async def no_corrections(_: Any) -> Corrections:
        return Corrections()

    for name, fake in (
        ("order_keys", order_keys), ("waiting_jobs", waiting_jobs), ("groups_of_users", no_groups),
        ("corrections", no_corrections),
    ):  # fmt: skip
        monkeypatch.setattr(store, name, fake)
    orders = TaskQueueOrders(nothing, Parameters())
    await orders.recalculate(None)  # type: ignore[arg-type]
    version = orders.version
    new = random.Random(1).sample(range(5_000, 9_000), 5)
    for key in new:
        orders.expect(key)
    await asyncio.gather(orders.load_missing(), orders.load_missing())
    assert orders.changed_since(version) == set(new) and asked == [None, sorted(new)]
    places = [orders.place(key, "S") for key in (1, new[0])]
    assert places[0] is not None and places[1] is not None and places[0].priority == places[1].priority == 0.5
    for key in range(10_000, 10_050):
        orders.expect(key)
    await orders.load_missing()
    changed = orders.changed_since(version)
    assert changed is not None and len(changed) == n_known + 55, "more than a hundredth: all are calculated"
