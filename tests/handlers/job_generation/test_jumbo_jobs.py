"""JEDI: Jumbo jobs and co-jumbo jobs; who makes them, who has the events, and how the task ends."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_generation.kinds.jumbo.store import jumbo as store_jumbo
from shared.runtime.service import Context
from tests import rows
from tests.databases import Databases
from tests.handlers.job_generation.jumbo import (
    begin,
    begun,
    hourly,
    is_prepared,
    jumbo_of,
    merge_all,
    put,
    status_of,
    take,
    use_jumbo,
)
from tests.handlers.job_generation.ranges import LINE, attempts, ends, process, ranges, spec_of
from tests.handlers.job_generation.story import Story, chunks_in, generated_in


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    return await begin(context, databases)


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


async def test_a_queue_for_jumbo_jobs_that_passed_brokerage_gets_one_though_it_was_not_ranked(story: Story) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10, "nJumboJobs": 3}, event_service=1,
        use_jumbo="W",
    )  # fmt: skip
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA", "J_GAMMA", for_jumbo=("J_BETA", "J_GAMMA", "J_LARGE"))
    rows = await story.fetch("SELECT queue, job_type FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert [tuple(row.values()) for row in rows] == [
        ("Q_ALPHA", "normal"), ("Q_ALPHA", "normal"), ("J_GAMMA", "jumbo"), ("J_BETA", "jumbo"),
    ], "the ranked one first, then the others; ten ranges are too few for J_LARGE"  # fmt: skip


async def test_a_jumbo_job_at_a_queue_that_is_ranked_no_more_counts_among_those_of_its_task(story: Story) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 1, "nJumboJobs": 2}, event_service=1,
        use_jumbo="W",
    )  # fmt: skip
    [chunk_id] = await story.ready(task_id)
    said = await story.broker(task_id, chunk_id, "Q_ALPHA", "J_BETA", max_jobs=1)
    [at_beta] = await jumbo_of(story, task_id)
    [co_jumbo] = [job_id for job_id in generated_in(said) if job_id != at_beta]
    await story.move([co_jumbo, at_beta], "running")
    await process(story, co_jumbo, 50)
    await story.end([co_jumbo], "merging")  # its set is merged: its queues count no more
    await story.broker(task_id, chunks_in(said)[0], "Q_ALPHA", "J_GAMMA", "J_LARGE")
    rows = await story.fetch("SELECT queue FROM jumbo_jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    assert [row["queue"] for row in rows] == ["J_BETA", "J_GAMMA"]


async def test_with_not_discard_events_what_a_jumbo_job_processed_of_a_failed_set_is_not_processed_again(
    story: Story,
) -> None:
    task_id, [co_jumbo], [jumbo] = await begun(story, n_files=1, notDiscardEvents=True, maxAttemptEsJob=1)
    await story.move([co_jumbo, jumbo], "running")
    await take(story, jumbo, task_id, 3)
    await story.end([co_jumbo], "failed", source="pilot")
    [chunk] = await story.fetch("SELECT chunk_id FROM chunks WHERE task_id = $1 AND status = 'offered'", task_id)
    await story.broker(task_id, chunk["chunk_id"], "Q_ALPHA", "J_BETA")
    assert await ranges(story, task_id) == ["done"] * 3 + ["ready"] * 2


async def test_a_jumbo_job_processes_everything_and_its_co_jumbo_jobs_are_merged_without_having_run(
    story: Story,
) -> None:
    task_id, co_jumbo, [jumbo] = await begun(story)
    await put(story, "activated", *co_jumbo)
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


async def test_a_jumbo_job_that_was_taken_back_before_a_pilot_came_is_not_one_in_vain(story: Story) -> None:
    task_id, co_jumbo, _ = await begun(story, n_files=1)
    await story.move(co_jumbo, "running")
    for number in range(4):
        assert len(await jumbo_of(story, task_id)) == number + 1
        await story.end((await jumbo_of(story, task_id))[-1:], "closed")
    assert len(await jumbo_of(story, task_id)) == 5 and await use_jumbo(story, task_id) == "R"


async def test_queues_are_looked_for_only_when_the_task_lacks_a_jumbo_job(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, [first, second], [jumbo] = await begun(story)
    asked = []

    async def queues_of_task(*_: Any) -> list[tuple[str, str]]:
        asked.append(task_id)
        return []

    monkeypatch.setattr(store_jumbo, "queues_of_task", queues_of_task)
    await story.move([first, jumbo], "running")
    await process(story, first, 5)
    await story.end([first], "merging")
    assert asked == [] and await use_jumbo(story, task_id) == "R"
    await story.end([jumbo], "failed", source="pilot")
    assert set(asked) == {task_id} and await status_of(story, second) == "defined"


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
    await put(story, status, first, second)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 7)
    [merge_id], _ = await hourly(story)
    assert await ends(story, first) == [("merging", "es_merge")]
    assert await status_of(story, second) == status and await status_of(story, jumbo) == "running"
    await story.end([merge_id], "finished")
    assert await ends(story, first) == [("finished", "es_merge")]
    assert (await ranges(story, task_id))[:5] == ["merged"] * 5


@pytest.mark.parametrize(("decided", "kept"), [(None, [["J_BETA", "SCORE"]]), ((), [])])
async def test_input_given_back_without_a_decision_of_brokerage_leaves_the_queues_for_jumbo_jobs_as_they_are(
    story: Story, decided: tuple[str, ...] | None, kept: list[list[str]]
) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10}, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    [chunk_id] = chunks_in(await story.broker(task_id, chunk_id, max_jobs=1, for_jumbo=("J_BETA",)))
    await story.unplaceable(task_id, chunk_id, for_jumbo=decided)
    assert await story.value("SELECT jumbo_queues FROM tasks WHERE task_id = $1", task_id) == kept


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


@pytest.mark.parametrize(("most", "n_jumbo", "then"), [(3, 1, 3), (2, 0, 2)])
async def test_a_jumbo_job_is_one_of_the_jobs_that_its_site_takes(
    story: Story, most: int, n_jumbo: int, then: int
) -> None:
    async with story.database.read() as connection:
        at = await connection.fetchval("SELECT orrery_now() + interval '5 minutes'")
        advert = {"site": "BETA", "expires_at": at, "max_jobs": most, "current_jobs": 2, "current_matches": 2}
        await rows.insert(connection, "site_adverts", advert)
    _, co_jumbo, jumbo = await begun(story)
    assert (len(co_jumbo), len(jumbo)) == (2, n_jumbo)
    assert await story.value("SELECT current_matches FROM site_adverts") == then
