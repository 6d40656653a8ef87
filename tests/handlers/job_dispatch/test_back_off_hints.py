"""When a pilot that got nothing should ask again: later and later, until one of its queue gets a job."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import acquire
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def timed(context: Context, rows: Rows, clock: Clock) -> AsyncIterator[Parts]:
    parts = build_parts(context, clock=clock)
    for action in parts.service.on_start:
        await action()
    yield parts
    await parts.close()


async def test_the_hint_doubles_up_to_the_longest_and_starts_again_when_a_pilot_of_the_queue_gets_a_job(
    timed: Parts, authority: Authority, rows: Rows, clock: Clock
) -> None:
    async with client(timed, authority, "pilot-1", "pilot") as pilot:
        waits = []
        for _ in range(6):
            waits.append((await acquire(pilot))["retry_after_s"])
            clock.now_s += waits[-1]
        assert waits == [60, 60, 120, 240, 300, 300]
        assert (await acquire(pilot, site_name="Q2"))["retry_after_s"] == 60, "another queue has its own"
        await rows.jobs(1)
        await timed.windows.reread("Q1")
        assert len((await acquire(pilot))["jobs"]) == 1
        assert (await acquire(pilot))["retry_after_s"] == 60
