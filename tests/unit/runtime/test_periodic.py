"""When periodic work runs again."""

from __future__ import annotations

import asyncio
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
