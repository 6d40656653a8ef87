"""CurMatches: one for each job created for a site, never more than it takes, whoever creates them at the same time."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import Any

import pytest

from services.job_dispatch.acquire.lane_reader import SQL
from services.job_generation.app import build
from services.job_generation.policy.values import JobInput, PlacedJob, QueueFacts
from services.job_generation.splitting.placement import Placement
from services.job_generation.supplying import matching as site_matches
from services.job_generation.supplying.matching import take_matches
from shared.brokerage.matchmaking import JobFacts
from shared.db import Database
from shared.events import ChunkBrokered, QueueChoice
from shared.runtime.service import Context
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.job_generation.story import Story, generated_in
from tests.handlers.job_generation.test_build_jobs import to_build
from tests.unit.job_generation.made import a_task


async def advertise(story: Story, site: str = "ALPHA", minutes: int = 5, **values: Any) -> None:
    async with story.database.read() as connection:
        at = await connection.fetchval("SELECT orrery_now() + make_interval(mins => $1)", minutes)
        await rows.insert(
            connection,
            "site_adverts",
            {"site": site, "expires_at": at, "current_jobs": 2, "current_matches": 2, **values},
        )


async def matched(story: Story) -> int:
    return int(await story.value("SELECT current_matches FROM site_adverts"))


async def generated(story: Story, n_files: int) -> tuple[int, int]:
    """Jobs that were made of so many files, and files that were left ready."""
    task_id = await story.task(n_files=n_files)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA")
    jobs = await story.value("SELECT count(*) FROM jobs WHERE task_id = $1", task_id)
    ready = await story.value(
        "SELECT count(*) FROM task_files WHERE task_id = $1 AND status <> 'running' AND type = 'input'", task_id
    )
    return jobs, ready


async def test_a_site_gets_only_the_jobs_it_takes_and_the_rest_goes_back(story: Story) -> None:
    await advertise(story, max_jobs=5)
    assert await generated(story, 4) == (3, 1)
    assert await matched(story) == 5


async def test_without_room_no_job_is_made(story: Story) -> None:
    await advertise(story, max_jobs=2)
    assert await generated(story, 4) == (0, 4)
    assert await matched(story) == 2
    again = await story.value("SELECT t.retry_at = a.expires_at FROM tasks t, site_adverts a")
    assert again, "it is tried when the site will have advertised again"


async def test_an_expired_advertisement_holds_nothing_back(story: Story) -> None:
    await advertise(story, minutes=-1, max_jobs=2)
    assert await generated(story, 4) == (4, 0)
    assert await matched(story) == 2


async def test_a_refused_job_says_why_in_the_log_of_its_file(story: Story) -> None:
    await advertise(story, max_jobs=3)
    await generated(story, 2)
    reason = await story.value(
        "SELECT reason FROM transition_log WHERE entity = 'file' AND from_status = 'picked' AND to_status = 'ready'"
    )
    assert reason.endswith(
        "site ALPHA did not take 1 jobs by its advertisement:"
        " site ALPHA asks for (CurMatches < MaxJobs) (CurMatches 3, MaxJobs 3)"
    )


async def test_requirements_may_ask_for_the_memory_of_a_job(story: Story) -> None:
    await advertise(story, requirements="TARGET.RequestMemory <= 900 && TARGET.RequestCpus == 1")
    assert await generated(story, 2) == (2, 0)
    assert await matched(story) == 4


async def test_a_job_whose_file_was_given_more_memory_is_asked_about_by_itself(story: Story) -> None:
    await advertise(story, requirements="TARGET.RequestMemory <= 900")
    task_id = await story.task(n_files=3)
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_files SET ram_count = 4000 WHERE lfn LIKE '%00001.root'")
    raised, ordinary = await story.ready(task_id)
    await story.broker(task_id, raised, "Q_ALPHA", resource_type="SCORE_HIMEM")
    await story.broker(task_id, ordinary, "Q_ALPHA")
    assert await story.files(task_id) == ["running", "ready", "running"]
    assert await matched(story) == 4


async def test_the_tasks_own_requirements_are_asked_when_jobs_are_made(story: Story) -> None:
    await advertise(story, max_jobs=100, advertisement={"Station": "samgrid"})
    refused = await story.task(n_files=1, rule={"requirements": 'TARGET.Station == "other"'})
    taken = await story.task(n_files=1, rule={"requirements": 'TARGET.Station == "samgrid"'})
    for task_id in (refused, taken):
        [chunk_id] = await story.ready(task_id)
        await story.broker(task_id, chunk_id, "Q_ALPHA")
    assert await story.value("SELECT array_agg(task_id) FROM jobs") == [taken]


async def test_dispatch_asks_about_the_jobs_that_were_made_as_generation_did(story: Story) -> None:
    """The rows that generation wrote say the same of each job as what generation asked the site about."""
    asked: list[JobFacts] = []
    await advertise(story, requirements="TARGET.RequestMemory > 0")
    task_id = await story.task(
        n_files=3,
        vo="atlas",
        working_group="AP_HIGG",
        processing_type="simul",
        gshare="MC",
        rule={"requirements": 'TARGET.Name == "ALPHA"'},
        core_count=8,
    )
    async with story.database.read() as connection:
        await connection.execute("UPDATE task_files SET ram_count = 3000 WHERE lfn LIKE '%00001.root'")
    real = site_matches.accepted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_matches, "accepted", lambda advert, jobs: asked.extend(jobs) or real(advert, jobs))
        await story.jobs_of(task_id, resource_type="SCORE_HIMEM")
    async with story.database.read() as connection:
        rows = await SQL.rows(
            connection, "job_facts", job_ids=await connection.fetchval("SELECT array_agg(job_id) FROM jobs")
        )
    written = [JobFacts.of(row, core_count=row["core_count"], ram_mb=row["ram_mb"]) for row in rows]
    assert len(written) == 3 and len(set(written)) == 2
    assert Counter(written) == Counter(asked)


async def test_an_advertisement_is_believed_for_five_minutes_and_not_longer(story: Story) -> None:
    await advertise(story, max_jobs=2)
    assert await made(story, after_s=299.9) == 0
    assert await made(story, after_s=300) == 2
    assert await matched(story) == 2


async def test_an_advertisement_that_arrives_while_jobs_are_counted_is_the_one_they_count_for(story: Story) -> None:
    await advertise(story, max_jobs=4)
    async with story.database.begin(reason="the site advertises") as work:
        await work.connection.execute(
            "UPDATE site_adverts SET current_jobs = 7, current_matches = 7, max_jobs = 10,"
            " advertised_at = clock_timestamp()"
        )
        counting = asyncio.create_task(made(story, n_jobs=9))
        await blocked(story)
    assert await counting == 3
    assert await matched(story) == 10


async def test_ten_transactions_at_once_never_match_more_than_the_site_takes(story: Story) -> None:
    await advertise(story, max_jobs=9)
    assert sum(await asyncio.gather(*(made(story) for _ in range(10)))) == 7
    assert await matched(story) == 9


async def test_two_replicas_that_race_for_the_last_matches_make_no_more_jobs_than_the_site_takes(
    story: Story, context: Context, database_url: str
) -> None:
    """Whole chunks, each in a process of its own, let loose at the same moment while the site's row is held."""
    database = await Database.connect(database_url, actor="other-replica")
    try:
        other = await started(build(dataclasses.replace(context, database=database)))
        await advertise(story, max_jobs=9)
        brokered = []
        for _ in range(6):
            task_id = await story.task(n_files=3)
            [chunk_id] = await story.ready(task_id)
            one = QueueChoice(queue="Q_ALPHA", resource_type="SCORE", weight=1.0)
            brokered.append(ChunkBrokered(chunk_id=chunk_id, task_id=task_id, decision_id=1, candidates=(one,)))
        replicas = [(story.database, story.service), (database, other)]
        async with story.database.begin(reason="the race starts together") as work:
            await work.connection.execute("SELECT FROM site_adverts FOR UPDATE")
            racing = [
                asyncio.create_task(deliver(*replicas[number % 2], event)) for number, event in enumerate(brokered)
            ]
            await blocked(story, 2)
        await asyncio.gather(*racing)
    finally:
        await database.close()
    await story.check()
    assert await story.value("SELECT count(*) FROM jobs") == 7
    assert await matched(story) == 9
    left = await story.value("SELECT count(*) FROM task_files WHERE type = 'input' AND status IN ('ready', 'picked')")
    assert left == 6 * 3 - 7


async def made(story: Story, n_jobs: int = 2, *, after_s: float = 0) -> int:
    """How many of so many jobs for ALPHA a transaction counts, so long after the newest advertisement."""
    queue = QueueFacts("Q_ALPHA", "SCORE", "ALPHA")
    placement = Placement([PlacedJob(queue, JobInput(())) for _ in range(n_jobs)])
    async with story.database.begin(reason="test") as work:
        await work.connection.execute(
            "SELECT set_config('orrery.now', (expires_at + make_interval(secs => $1 - 300))::text, true)"
            " FROM site_adverts",
            after_s,
        )
        await take_matches(work, a_task(), placement)
    return len(placement.jobs)


async def blocked(story: Story, at_least: int = 1) -> None:
    """Returns when so many transactions wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(60):
        while await story.value(waiting) < at_least:  # noqa: ASYNC110 -- PostgreSQL tells nobody who waits for a lock
            await asyncio.sleep(0.01)


async def test_a_build_job_is_one_of_the_jobs_that_a_site_takes(story: Story) -> None:
    await advertise(story, max_jobs=3)
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    assert len(generated_in(await story.broker(task_id, chunk_id))) == 1
    assert await matched(story) == 3


async def test_a_site_without_room_gets_no_build_job_and_the_task_says_why(story: Story) -> None:
    await advertise(story, max_jobs=2)
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert await story.value("SELECT count(*) FROM jobs WHERE task_id = $1", task_id) == 0
    reason = await story.value(
        "SELECT reason FROM generation_decisions WHERE task_id = $1 AND outcome = 'unsplittable'", task_id
    )
    assert reason.startswith("site ALPHA did not take 1 jobs by its advertisement: ")
    assert await matched(story) == 2


async def test_a_build_job_that_its_site_does_not_take_is_woken_by_the_next_advertisement(story: Story) -> None:
    await advertise(story, max_jobs=2)
    task_id = await to_build(story)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    [row] = await story.fetch("SELECT task_id, kind, work, causes -> 'lifts' ? 'ADVERTISEMENT' AS is_woken FROM waits")
    assert tuple(row.values()) == (task_id, "queue", "input", True)
