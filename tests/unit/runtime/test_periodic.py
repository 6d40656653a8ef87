"""When periodic work runs again."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from prometheus_client import CollectorRegistry

from shared.db.database import Database
from shared.runtime.metrics import RuntimeMetrics
from shared.runtime.periodic import PeriodicRunner
from shared.runtime.service import Periodic


class NoDatabase:
    """Transactions of nothing."""

    @asynccontextmanager
    async def begin(self, *, reason: str) -> AsyncIterator[None]:
        yield None


async def test_work_that_left_a_part_goes_on_at_once_and_then_waits_for_its_period() -> None:
    database = cast(Database, NoDatabase())
    runner = PeriodicRunner(
        database, RuntimeMetrics(CollectorRegistry()), service="s", holder="h", jitter=random.Random(1)
    )
    left, done = 3, asyncio.Event()

    async def run(work: Any) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()
        return left > 0

    loop = asyncio.create_task(runner.run(Periodic("work", 3600.0, run, lease=False)))
    try:
        await asyncio.wait_for(done.wait(), 60)
        assert left == 0
    finally:
        runner.request_stop()
        await loop
    assert left == 0, "the period has not passed"


async def test_work_that_can_wait_rests_between_two_slices_as_long_as_it_says() -> None:
    database = cast(Database, NoDatabase())
    runner = PeriodicRunner(
        database, RuntimeMetrics(CollectorRegistry()), service="s", holder="h", jitter=random.Random(1)
    )
    began: list[float] = []
    done = asyncio.Event()

    async def run(work: Any) -> bool:
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        if len(began) == 3:
            done.set()
        return len(began) < 3

    loop = asyncio.create_task(runner.run(Periodic("work", 3600.0, run, lease=False, rest=4.0)))
    try:
        await asyncio.wait_for(done.wait(), 60)
    finally:
        runner.request_stop()
        await loop
    assert all(later - earlier >= 0.49 for earlier, later in itertools.pairwise(began))
