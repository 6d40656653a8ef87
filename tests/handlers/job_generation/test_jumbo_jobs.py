"""JEDI: Jumbo jobs and co-jumbo jobs; who makes them, who has the events, and how the task ends."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shared.events import JobsFailed
from shared.runtime.service import Context
from shared.states.event_range import CODES
from tests.databases import Databases
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.job_generation.ranges import LINE, attempts, ends, process, ranges, spec_of
from tests.handlers.job_generation.story import Story, generated_in


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    """The small grid with queues for jumbo jobs at three sites."""
    found = await Story.begin(context, databases)
    grid = small_grid()
    for name, site, more in (
        ("J_BETA", "BETA", ""),
        ("J_GAMMA", "GAMMA", ""),
        ("J_LARGE", "ALPHA", ",minEventsForJumbo=50"),
    ):
        grid["queues"][name] = a_record(name, site, catchall=f"useJumboJobs{more}")
    await load_grid(found.database, grid)
    return found


async def begun(
    story: Story, *queues: str, n_files: int = 2, use_jumbo: str | None = "W", site: str | None = None, **rule: Any
) -> tuple[int, list[int], list[int]]:
    """A task with a job set for each file, of five ranges; the task, its co-jumbo jobs and its jumbo jobs."""
    task_id = await story.task(
        n_files=n_files, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10, **rule}, event_service=1,
        use_jumbo=use_jumbo, site=site,
    )  # fmt: skip
    [chunk_id] = await story.ready(task_id)
    made = generated_in(await story.broker(task_id, chunk_id, *(queues or ("Q_ALPHA", "J_BETA"))))
    jumbo = await jumbo_of(story, task_id)
    return task_id, [job for job in made if job not in jumbo], [job for job in made if job in jumbo]


async def jumbo_of(story: Story, task_id: int) -> list[int]:
    rows = await story.fetch("SELECT job_id FROM jumbo_jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    return [row["job_id"] for row in rows]


async def take(story: Story, job_id: int, task_id: int, n_ranges: int, to: str = "finished") -> None:
    """The pilot of a jumbo job takes ranges of any set of the task."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute(
            "UPDATE event_ranges SET status = $3, job_id = $1, is_jumbo = true WHERE event_range_id IN ("
            " SELECT event_range_id FROM event_ranges WHERE task_id = $4 AND status = 0 AND attempt_nr > 0"
            " ORDER BY file_id, job_process_id LIMIT $2)",
            job_id, n_ranges, CODES[to], task_id,
        )  # fmt: skip


async def use_jumbo(story: Story, task_id: int) -> str:
    return str(await story.value("SELECT use_jumbo FROM tasks WHERE task_id = $1", task_id))


async def status_of(story: Story, job_id: int) -> str:
    return str(await story.value("SELECT status FROM every_job WHERE job_id = $1", job_id))


async def is_prepared(story: Story, task_id: int) -> bool:
    """Whether the task is over once the jumbo jobs that were taken back are counted."""
    rows = await story.fetch(
        "SELECT job_id FROM jobs WHERE task_id = $1 AND job_type = 'jumbo' AND status = 'closed'"
        " AND results_applied_at IS NULL",
        task_id,
    )
    if rows:
        await story.hear(JobsFailed(job_ids=tuple(row["job_id"] for row in rows)))
    return await story.status(task_id) == "prepared"


async def merge_all(story: Story, task_id: int) -> None:
    rows = await story.fetch("SELECT job_id FROM jobs WHERE task_id = $1 AND job_type = 'merge'", task_id)
    for row in rows:
        await story.end([row["job_id"]], "finished")


async def test_one_jumbo_job_goes_to_the_queue_for_them_and_co_jumbo_jobs_go_elsewhere(story: Story) -> None:
    task_id, co_jumbo, [jumbo] = await begun(story)
    rows = await story.fetch("SELECT job_id, queue, job_type FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert [tuple(row.values()) for row in rows] == [
        (co_jumbo[0], "Q_ALPHA", "normal"), (co_jumbo[1], "Q_ALPHA", "normal"), (jumbo, "J_BETA", "jumbo"),
    ]  # fmt: skip
    assert await use_jumbo(story, task_id) == "R"
    spec = await spec_of(story, jumbo)
    assert spec["eventService"] == "True" and len(spec["inFiles"].split(",")) == 2


@pytest.mark.parametrize(
    ("values", "queues"),
    [
        ({"use_jumbo": None}, []),
        ({"use_jumbo": "D"}, []),
        ({"site": "ALPHA"}, []),
        ({}, ["J_BETA"]),
        ({"nJumboJobs": 2}, ["J_BETA", "J_GAMMA"]),
        ({"nJumboJobs": 9}, ["J_BETA", "J_GAMMA"]),  # ten ranges: too few for J_LARGE
    ],
)
async def test_jumbo_jobs_are_made_one_for_each_queue_up_to_the_number_of_the_task(
    story: Story, values: dict[str, Any], queues: list[str]
) -> None:
    task_id, *_ = await begun(story, "Q_ALPHA", "J_BETA", "J_GAMMA", "J_LARGE", **values)
    rows = await story.fetch("SELECT queue FROM jumbo_jobs WHERE task_id = $1 ORDER BY queue", task_id)
    assert [row["queue"] for row in rows] == queues


async def test_a_jumbo_job_processes_everything_and_its_co_jumbo_jobs_are_merged_without_having_run(
    story: Story,
) -> None:
    task_id, co_jumbo, [jumbo] = await begun(story)
    async with story.database.begin(reason="the test plays dispatch") as work:
        await work.connection.execute("UPDATE jobs SET status = 'activated' WHERE job_id = ANY($1::bigint[])", co_jumbo)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 10)
    await story.end([jumbo], "finished")
    assert await status_of(story, jumbo) == "finished"
    assert await ends(story, *co_jumbo) == [("merging", "es_merge")] * 2
    assert await ranges(story, task_id) == ["done"] * 10
    await merge_all(story, task_id)
    assert await ranges(story, task_id) == ["merged"] * 10
    assert await story.files(task_id) == ["finished"] * 2 and await is_prepared(story, task_id)


async def test_what_a_jumbo_job_processed_is_done_only_when_the_co_jumbo_job_ends(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 3)
    await story.end([jumbo], "finished")
    assert await ranges(story, task_id) == ["finished"] * 3 + ["ready"] * 2
    await process(story, co_jumbo, 2)
    [merge_id] = generated_in(await story.end([co_jumbo], "merging"))
    assert await ranges(story, task_id) == ["done"] * 5
    await story.end([merge_id], "finished")
    assert await is_prepared(story, task_id)


async def test_a_co_jumbo_job_without_ranges_waits_for_the_jumbo_job_that_has_them(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 5, "running")
    assert generated_in(await story.end([co_jumbo], "merging")) == []
    assert await ends(story, co_jumbo) == [("merging", "es_wait")]
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute("UPDATE event_ranges SET status = 3 WHERE job_id = $1", jumbo)
    [merge_id] = generated_in(await story.end([jumbo], "finished"))
    await story.end([merge_id], "finished")
    assert await ends(story, co_jumbo) == [("finished", "es_merge")] and await is_prepared(story, task_id)


async def test_ranges_of_a_jumbo_job_that_failed_are_released_with_one_attempt_less(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 2)
    await take(story, jumbo, task_id, 2, "running")
    await story.end([jumbo], "failed", source="pilot")
    assert await ranges(story, task_id) == ["finished"] * 2 + ["ready"] * 3
    assert await attempts(story, task_id) == [9, 9, 10]
    await process(story, co_jumbo, 3)
    [merge_id] = [
        job for job in generated_in(await story.end([co_jumbo], "merging")) if job not in await jumbo_of(story, task_id)
    ]
    await story.end([merge_id], "finished")
    assert await ranges(story, task_id) == ["merged"] * 5


async def test_a_jumbo_job_killed_by_a_person_loses_what_it_processed(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await story.move([co_jumbo], "running")
    await take(story, jumbo, task_id, 2)
    await story.end([jumbo], "cancelled", source="user")
    found = await ranges(story, task_id)
    assert found.count("discarded") == 2 and found.count("ready") == 5


async def test_a_range_that_jumbo_jobs_used_up_fails_the_job_that_waits_for_it(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1, maxAttemptES=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 5, "running")
    await story.end([co_jumbo], "merging")
    await story.end([jumbo], "failed", source="pilot")
    assert (await ends(story, co_jumbo))[0][0] == "failed"
    assert await story.files(task_id) == ["picked"]  # it is tried again
    assert set(await ranges(story, task_id)) == {"cancelled"}


async def test_after_three_jumbo_jobs_that_processed_nothing_there_are_no_more(story: Story) -> None:
    task_id, co_jumbo, _ = await begun(story, n_files=1)
    await story.move(co_jumbo, "running")
    for number in range(3):
        assert len(await jumbo_of(story, task_id)) == number + 1
        await story.end((await jumbo_of(story, task_id))[-1:], "failed", source="pilot")
    assert len(await jumbo_of(story, task_id)) == 3 and await use_jumbo(story, task_id) == "D"


async def test_a_jumbo_job_that_no_pilot_has_is_taken_back_when_nothing_is_left(story: Story) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1)
    await process(story, co_jumbo, 5)
    [merge_id] = generated_in(await story.end([co_jumbo], "merging"))
    assert await status_of(story, jumbo) == "closed"
    await story.end([merge_id], "finished")
    assert await is_prepared(story, task_id)


@pytest.mark.parametrize("status", ["activated", "assigned"])
async def test_every_hour_co_jumbo_jobs_end_whose_events_were_processed_while_the_jumbo_job_goes_on(
    story: Story, status: str
) -> None:
    task_id, [first, second], [jumbo] = await begun(story)
    async with story.database.begin(reason="the test plays dispatch") as work:
        jobs = [first, second]
        await work.connection.execute("UPDATE jobs SET status = $2 WHERE job_id = ANY($1::bigint[])", jobs, status)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 7)
    periodic = next(one for one in story.service.periodic if one.name == "finish-co-jumbo-jobs")
    assert periodic.every_s == 3600
    async with story.database.begin(reason="periodic") as work:
        await periodic.run(work)
        [merge_id] = generated_in(work.emitted)
    await story.check()
    assert await ends(story, first) == [("merging", "es_merge")]
    assert await status_of(story, second) == status and await status_of(story, jumbo) == "running"
    await story.end([merge_id], "finished")
    assert await ends(story, first) == [("finished", "es_merge")]
    assert (await ranges(story, task_id))[:5] == ["merged"] * 5


async def test_close_to_100_percent_jumbo_jobs_are_unset_and_taken_back(story: Story) -> None:
    task_id, co_jumbo, [jumbo] = await begun(story, n_files=20)
    await process(story, co_jumbo[0], 5)
    for number, job_id in enumerate(co_jumbo[:19]):
        await process(story, job_id, 5 if number else 0)
        said = await story.end([job_id], "merging")
        assert await use_jumbo(story, task_id) == "R" and await status_of(story, jumbo) == "defined"
        [merge_id] = [one for one in generated_in(said) if one != jumbo]
        await story.end([merge_id], "finished")
    assert await use_jumbo(story, task_id) == "D" and await status_of(story, jumbo) == "closed"


@pytest.mark.parametrize("seed", range(4))
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


async def one_step(story: Story, task_id: int, rng: random.Random, *, fails: float) -> bool:
    """Input is brokered, or one job takes ranges and ends somehow; whether the task is over."""
    if await is_prepared(story, task_id):
        return True
    chunks = await story.fetch("SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", task_id)
    if chunks:
        await story.broker(task_id, chunks[0]["chunk_id"], "Q_ALPHA", "Q_BETA", "J_BETA", "J_GAMMA")
        return False
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
