"""CurMatches: one for each job created for a site, never more than it takes, whoever creates them at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from services.job_generation.policy.placing import PlacedJob, Placement
from services.job_generation.policy.values import JobInput
from services.job_generation.site_matches import take_matches
from tests import rows
from tests.handlers.job_generation.story import Story


async def advertise(story: Story, site: str = "ALPHA", minutes: int = 5, **values: Any) -> None:
    async with story.database.read() as connection:
        at = await connection.fetchval("SELECT orrery_now() + make_interval(mins => $1)", minutes)
        await rows.insert(connection, "site_adverts", {"site": site, "expires_at": at, "current_jobs": 2,
                                                       "current_matches": 2, **values})  # fmt: skip


async def matched(story: Story) -> int:
    return int(await story.value("SELECT current_matches FROM site_adverts"))


async def generated(story: Story, n_files: int) -> tuple[int, int]:
    """Jobs that were made of so many files, and files that were left ready."""
    task_id = await story.task(n_files=n_files)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA")
    jobs = await story.value("SELECT count(*) FROM jobs WHERE task_id = $1", task_id)
    ready = await story.value("SELECT count(*) FROM task_files WHERE task_id = $1 AND status <> 'running'"
                              " AND type = 'input'", task_id)  # fmt: skip
    return jobs, ready


async def test_a_site_gets_only_the_jobs_it_takes_and_the_rest_goes_back(story: Story) -> None:
    await advertise(story, max_jobs=5)
    assert await generated(story, 4) == (3, 1)
    assert await matched(story) == 5


async def test_without_room_no_job_is_made(story: Story) -> None:
    await advertise(story, max_jobs=2)
    assert await generated(story, 4) == (0, 4)
    assert await matched(story) == 2


async def test_an_expired_advertisement_holds_nothing_back(story: Story) -> None:
    await advertise(story, minutes=-1, max_jobs=2)
    assert await generated(story, 4) == (4, 0)
    assert await matched(story) == 2


async def test_ten_transactions_at_once_never_match_more_than_the_site_takes(story: Story) -> None:
    await advertise(story, max_jobs=9)

    class Place:
        site = "ALPHA"

    class One:
        user_name, task_id, vo, prod_source_label, gshare, priority = "alice", 1, "demo", "managed", "MC", 100

    async def one() -> int:
        placed: Any = [PlacedJob(Place(), JobInput(())) for _ in range(2)]  # type: ignore[arg-type]
        placement = Placement(jobs=placed)
        async with story.database.begin(reason="test") as work:
            await take_matches(work, One(), placement)  # type: ignore[arg-type]
        return len(placement.jobs)

    assert sum(await asyncio.gather(*(one() for _ in range(10)))) == 7
    assert await matched(story) == 9
