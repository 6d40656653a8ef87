"""Ranges that jumbo jobs lose or fail, and the sets that wait for them: none waits for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest

from services.job_generation.kinds.jumbo.store import jumbo as store_jumbo
from shared.events import JobsMerging
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.job_generation.jumbo import (
    begin,
    begun,
    hourly,
    is_prepared,
    jumbo_of,
    put,
    report,
    status_of,
    take,
)
from tests.handlers.job_generation.ranges import ends, process, ranges
from tests.handlers.job_generation.story import Story, generated_in


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    return await begin(context, databases)


async def waits(story: Story, **rule: Any) -> tuple[int, int, int]:
    """A co-jumbo job that waits in merging for the jumbo job, which has all five ranges of its set."""
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1, **rule)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 5, "running")
    await story.end([co_jumbo], "merging")
    assert await ends(story, co_jumbo) == [("merging", "es_wait")]
    return task_id, co_jumbo, jumbo


@pytest.mark.parametrize(
    ("state", "rule", "goes_on"),
    [("failed", {}, True), ("failed", {"maxAttemptES": 1}, False), ("fatal", {}, False)],
)
async def test_a_set_whose_last_ranges_a_jumbo_job_could_not_process_does_not_wait_for_ever(
    story: Story, state: str, rule: dict[str, Any], goes_on: bool
) -> None:
    task_id, co_jumbo, jumbo = await waits(story, **rule)
    await report(story, jumbo, *[state] * 5)
    made = generated_in(await story.end([jumbo], "finished"))
    others = set(made) - set(await jumbo_of(story, task_id))
    if goes_on:
        assert len(others) == 1 and await ends(story, co_jumbo) == [("merging", "es_retry")]
        assert await story.value("SELECT role FROM job_set_jobs WHERE job_id = $1", others.pop()) == "consumer"
    else:
        assert (await ends(story, co_jumbo))[0][0] == "failed"
        assert await story.files(task_id) == ["picked"]  # it is tried again


async def test_every_hour_a_set_fails_whose_ranges_failed_for_good_while_the_jumbo_job_goes_on(story: Story) -> None:
    task_id, co_jumbo, jumbo = await waits(story)
    await report(story, jumbo, *["fatal"] * 5)
    await hourly(story)
    assert (await ends(story, co_jumbo))[0][0] == "failed" and await story.files(task_id) == ["picked"]


async def test_every_hour_a_set_goes_on_whose_ready_range_no_job_can_take(story: Story) -> None:
    task_id, _, jumbo = await waits(story)
    await report(story, jumbo, *["failed"] * 5)
    assert await hourly(story) == ([], False)  # the jumbo job may take it again
    await put(story, "holding", jumbo)
    [consumer], _ = await hourly(story)
    await story.move([consumer], "running")
    await process(story, consumer, 5)
    await story.end([consumer], "merging")
    assert [one for one in await ranges(story, task_id) if one != "failed"] == ["done"] * 5


async def test_the_hourly_look_goes_on_behind_a_full_slice_and_leaves_out_sets_with_a_pilot(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_jumbo, "SETS_AT_ONCE", 1)
    task_id, [running, *queued], [jumbo] = await begun(story, n_files=3)
    await put(story, "activated", *queued)
    await story.move([running, jumbo], "running")
    await take(story, jumbo, task_id, 15)
    assert [(await hourly(story))[1] for _ in range(3)] == [True, True, False]
    assert await ends(story, *queued) == [("merging", "es_merge")] * 2
    assert await status_of(story, running) == "running"


async def test_what_a_job_processed_counts_although_a_jumbo_job_ends_before_its_end_is_counted(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 3, "running")
    await process(story, co_jumbo, 2)
    await story.move([co_jumbo], "merging")
    await story.end([jumbo], "failed", source="pilot")
    await story.hear(JobsMerging(job_ids=(co_jumbo,)))
    assert await ends(story, co_jumbo) == [("merging", "es_retry")]
    assert sorted(await ranges(story, task_id)) == ["done"] * 2 + ["ready"] * 3


# in the last one all that a set waits for is reported failed
@pytest.mark.parametrize("seed", [*range(5), 35])
async def test_whatever_ends_when_each_range_is_merged_once_or_its_file_used_its_attempts(
    story: Story, seed: int
) -> None:
    """Jobs take, process, lose and fail ranges in a random order; every invariant holds after each step."""
    rng = random.Random(seed)
    task_id, *_ = await begun(story, "Q_ALPHA", "Q_BETA", "J_BETA", "J_GAMMA", nEsConsumers=2, nJumboJobs=2)
    for _ in range(40):
        if await one_step(story, task_id, rng, fails=0.25):
            break
    for _ in range(60):
        if await one_step(story, task_id, rng, fails=0.0):
            break
    assert await is_prepared(story, task_id)
    files = await story.files(task_id)
    assert set(files) <= {"finished", "failed"}
    rows = await story.fetch(
        "SELECT count(*) AS n, count(DISTINCT (file_id, def_min_event_id)) AS n_distinct FROM event_ranges"
        " WHERE task_id = $1 AND status = 9",
        task_id,
    )
    assert rows[0]["n"] == rows[0]["n_distinct"] == 5 * files.count("finished")
    unused = "SELECT count(*) FROM task_files WHERE task_id = $1 AND status = 'failed' AND attempt_nr < max_attempt"
    assert await story.value(f"{unused} AND type = 'input'", task_id) == 0


async def one_step(story: Story, task_id: int, rng: random.Random, *, fails: float, waits: float = 0.0) -> bool:
    """Input is brokered, or one job takes ranges and ends somehow; whether the task is over.

    `waits`: how often only queues for jumbo jobs are free.
    """
    if await is_prepared(story, task_id):
        return True
    chunks = await story.fetch("SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", task_id)
    if chunks:
        others = () if waits and rng.random() < waits else ("Q_ALPHA", "Q_BETA")
        await story.broker(task_id, chunks[0]["chunk_id"], *others, "J_BETA", "J_GAMMA")
        return False
    if rng.random() < fails / 4:
        await hourly(story)
    jobs = await story.fetch(
        "SELECT job_id, job_type, status FROM jobs WHERE task_id = $1 AND status IN ('defined', 'running')"
        " ORDER BY job_id",
        task_id,
    )
    if not jobs:
        return False
    job = rng.choice(jobs)
    job_id, ends_badly = job["job_id"], rng.random() < fails
    if job["job_type"] == "merge":
        await story.end([job_id], "failed" if ends_badly else "finished", source="pilot" if ends_badly else None)
        return False
    if job["status"] == "defined":
        await story.move([job_id], "running")
    takes = (
        (lambda n, to: take(story, job_id, task_id, n, to))
        if job["job_type"] == "jumbo"
        else (lambda n, to: process(story, job_id, n, to))
    )
    await takes(rng.randint(0, 4), "running")
    if rng.random() < fails:
        await report(story, job_id, *rng.choices(["failed", "fatal"], [3, 1], k=rng.randint(1, 4)))
    if rng.random() < 0.4:
        return False  # it goes on, and has them
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute(
            "UPDATE event_ranges SET status = 3 WHERE job_id = $1 AND status = 2 AND $2", job_id, not ends_badly
        )
    await takes(0 if ends_badly else rng.randint(0, 3), "finished")
    good = "finished" if job["job_type"] == "jumbo" else "merging"
    await story.end([job_id], "failed" if ends_badly else good, source="pilot" if ends_badly else None)
    return False
