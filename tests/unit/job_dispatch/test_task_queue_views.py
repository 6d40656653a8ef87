"""What each kind of pilot may be given, by order key."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from services.job_dispatch.acquire.site_limits import SiteLimits
from services.job_dispatch.acquire.task_queues import TaskQueues
from services.job_dispatch.policy.fitting import Offer
from shared.cache import NullCache
from shared.config.parameters import Parameters
from shared.snapshot import KnownGrid


@asynccontextmanager
async def unread() -> AsyncIterator[asyncpg.Connection]:
    """No question of these tests is for the database."""
    pytest.fail("PostgreSQL was asked")
    yield


def test_jobs_without_a_task_queue_are_for_pilots_of_everybody_whoever_asked_before() -> None:
    parameters = Parameters()
    limits = SiteLimits(parameters, lambda: 0.0)
    queues = TaskQueues(unread, parameters, KnownGrid(NullCache()), limits, random=random.Random(1))
    asked = [Offer("Q", task_id=7), Offer("Q"), Offer("Q", user_name="ada"), Offer("Q", working_group="higgs")]
    for offers in (asked, asked[::-1]):
        assert {one.asks_for for one in offers if queues.view(one, bool).fits(0)} == {""}
