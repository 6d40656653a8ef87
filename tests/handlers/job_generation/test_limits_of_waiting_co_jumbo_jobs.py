"""JEDI: Jumbo jobs and co-jumbo jobs: what waiting job sets may not do to their task."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_generation.kinds.event_service.store import waiting_sets
from services.job_generation.kinds.event_service.store.waiting_sets import SETS_OF_OFFER
from shared.events import JobsFailed, TaskJumboSwitched
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.job_generation.jumbo import begin, jumbo_of, put, take
from tests.handlers.job_generation.ranges import LINE, ends
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_waiting_co_jumbo_jobs import ask_again, counted, only_jumbo, waiting_jobs


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    return await begin(context, databases)


async def decided(story: Story, task_id: int) -> tuple[str, str]:
    """The latest decision about the task, and why."""
    [row] = await story.fetch("SELECT outcome, reason FROM generation_decisions WHERE task_id = $1", task_id)
    return row["outcome"], row["reason"]


async def switch_off(story: Story, task_id: int) -> None:
    async with story.database.begin(reason="the switcher") as work:
        await work.connection.execute("UPDATE tasks SET use_jumbo = 'D' WHERE task_id = $1", task_id)


async def become(story: Story, task_id: int, status: str) -> None:
    async with story.database.begin(reason="the test moves the task") as work:
        await work.connection.execute("UPDATE tasks SET status = $2 WHERE task_id = $1", task_id, status)


async def chunk_by_chunk(story: Story, task_id: int, **choice: Any) -> int:
    """How many chunks were brokered one after the other, one file each."""
    chunks, n_chunks = await story.ready(task_id), 0
    while chunks:
        [chunk_id] = chunks
        chunks, n_chunks = chunks_in(await story.broker(task_id, chunk_id, "J_BETA", max_jobs=1)), n_chunks + 1
    return n_chunks


async def test_further_input_follows_at_once_where_all_ranked_queues_are_for_jumbo_jobs(story: Story) -> None:
    task_id = await story.task(
        n_files=4, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10}, event_service=1, use_jumbo="W"
    )
    assert await chunk_by_chunk(story, task_id) == 4
    assert len(await waiting_jobs(story, task_id)) == 4
    row = await story.value("SELECT retry_at IS NULL AND co_jumbo_retry_at > orrery_now() FROM tasks")
    assert row is True


async def test_more_sets_that_wait_do_not_put_off_when_queues_are_asked_for_again(story: Story) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10}, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    [chunk_id] = chunks_in(await story.broker(task_id, chunk_id, "J_BETA", max_jobs=1))
    first = await story.value("SELECT co_jumbo_retry_at FROM tasks WHERE task_id = $1", task_id)
    await story.broker(task_id, chunk_id, "J_BETA", max_jobs=1)
    assert await story.value("SELECT co_jumbo_retry_at FROM tasks WHERE task_id = $1", task_id) == first


async def test_a_task_says_that_its_events_are_left_to_jumbo_jobs(story: Story) -> None:
    task_id, *_ = await only_jumbo(story)
    outcome, reason = await decided(story, task_id)
    assert outcome == "unplaceable" and "only queues for jumbo jobs were ranked (J_BETA/SCORE)" in reason


async def test_a_task_whose_jobs_only_wait_without_jumbo_jobs_becomes_pending(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story)
    await switch_off(story, task_id)
    await story.end([jumbo], "closed", source="generation")
    await story.unplaceable(task_id, await ask_again(story, task_id))
    assert await story.status(task_id) == "pending" and await waiting_jobs(story, task_id) == waiting
    row = await story.fetch("SELECT error_dialog, frozen_time, retry_at FROM tasks WHERE task_id = $1", task_id)
    assert row[0]["error_dialog"] == "no queue is online" and row[0]["frozen_time"] and row[0]["retry_at"]


async def test_without_jumbo_jobs_waiting_sets_go_to_queues_for_jumbo_jobs_as_well(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story)
    await switch_off(story, task_id)
    await story.end([jumbo], "closed", source="generation")
    made = generated_in(await story.broker(task_id, await ask_again(story, task_id), "J_BETA"))
    assert len(made) == 2 and await waiting_jobs(story, task_id) == []
    assert await ends(story, *waiting) == [("closed", "es_unused")] * 2


@pytest.mark.parametrize("status", ["exhausted", "pending", "throttled"])
async def test_no_real_co_jumbo_jobs_are_made_in_a_task_that_makes_no_jobs(story: Story, status: str) -> None:
    task_id, waiting, _ = await only_jumbo(story)
    chunk_id = await ask_again(story, task_id)
    await become(story, task_id, status)
    assert generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA")) == []
    assert await waiting_jobs(story, task_id) == waiting and await story.status(task_id) == status
    assert await story.value("SELECT status FROM chunks WHERE chunk_id = $1", chunk_id) == "returned"


async def test_a_task_is_broken_whose_real_co_jumbo_jobs_cannot_be_defined(story: Story) -> None:
    task_id, *_ = await only_jumbo(story)
    chunk_id = await ask_again(story, task_id)
    async with story.database.begin(reason="the command line is not what it was") as work:
        await work.connection.execute(
            "UPDATE job_parameters_templates SET job_parameters_template ="
            " jsonb_set(job_parameters_template, '{normal}', '\"--in=${IN} --out=${OUTPUT7}\"') WHERE task_id = $1",
            task_id,
        )
    await story.broker(task_id, chunk_id, "Q_ALPHA")
    assert await story.status(task_id) == "tobroken"
    assert "OUTPUT7" in (await decided(story, task_id))[1]


async def test_jumbo_jobs_are_made_after_real_co_jumbo_jobs_took_over(story: Story) -> None:
    task_id, _, jumbo = await only_jumbo(story)
    real = generated_in(await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA", "J_BETA"))
    rows = await story.fetch("SELECT DISTINCT queue FROM jobs WHERE job_id = ANY($1::bigint[])", real)
    assert [row["queue"] for row in rows] == ["Q_ALPHA"]
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 1, "running")
    await story.end([jumbo], "failed", source="watchdog")
    assert len(await jumbo_of(story, task_id)) == 2


async def test_a_waiting_job_that_was_killed_meanwhile_is_not_replaced_twice(story: Story) -> None:
    task_id, [waiting], _ = await only_jumbo(story, n_files=1)
    chunk_id = await ask_again(story, task_id)
    await put(story, "cancelled", waiting)
    assert generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA")) == []
    await story.hear(JobsFailed(job_ids=(waiting,)))
    assert len(await waiting_jobs(story, task_id)) == 1 and await counted(story, task_id) == (1, 1)


async def heavy(story: Story, **values: Any) -> int:
    """A task with 15 GB of input, which is copied; Q_SMALL has 10 GB of scratch space."""
    await load_grid(story.database, grid_with_a_small_queue())
    rule = {"nFilesPerJob": None, "useLocalIO": True, **values.pop("rule")}
    task_id = await story.task(n_files=5, rule=rule, **values)
    async with story.database.begin(reason="the files are large") as work:
        await work.connection.execute("UPDATE task_files SET fsize = 3000000000 WHERE task_id = $1", task_id)
    return task_id


def grid_with_a_small_queue() -> dict[str, Any]:
    grid = small_grid()
    grid["queues"]["J_BETA"] = a_record("J_BETA", "BETA", catchall="useJumboJobs")
    grid["queues"]["Q_SMALL"] = a_record("Q_SMALL", "GAMMA", maxwdir=10000)
    return grid


async def queues_of(story: Story, task_id: int, job_type: str = "normal") -> list[str | None]:
    rows = await story.fetch(
        "SELECT queue FROM jobs WHERE task_id = $1 AND job_type = $2 AND status = 'defined' ORDER BY job_id",
        task_id,
        job_type,
    )
    return [row["queue"] for row in rows]


async def test_a_waiting_set_stays_where_no_queue_has_the_scratch_space(story: Story) -> None:
    task_id = await heavy(
        story, rule={"nEventsPerWorker": 10}, n_events=50, command_line=LINE, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "J_BETA")
    waiting = await waiting_jobs(story, task_id)
    chunk_id = await ask_again(story, task_id)
    await story.broker(task_id, chunk_id, "Q_SMALL")
    assert await waiting_jobs(story, task_id) == waiting and await queues_of(story, task_id) == []
    outcome, reason = await decided(story, task_id)
    assert outcome == "unplaceable" and "fits no queue (Q_SMALL/SCORE: needs" in reason
    assert await story.value("SELECT status FROM chunks WHERE chunk_id = $1", chunk_id) == "returned"
    assert generated_in(await story.broker(task_id, await ask_again(story, task_id), "Q_SMALL", "Q_ALPHA"))
    assert await queues_of(story, task_id) == ["Q_ALPHA"]


async def test_waiting_sets_give_way_to_no_more_jobs_than_their_queue_takes(story: Story) -> None:
    task_id, [_, second], _ = await only_jumbo(story)
    chunk_id = await ask_again(story, task_id)
    assert len(generated_in(await story.broker(task_id, chunk_id, "Q_ALPHA", max_jobs=1))) == 1
    assert await waiting_jobs(story, task_id) == [second] and await counted(story, task_id) == (1, 1)
    assert "Q_ALPHA takes no more jobs" in (await decided(story, task_id))[1]
    assert await story.value("SELECT co_jumbo_retry_at > orrery_now() FROM tasks WHERE task_id = $1", task_id)


async def test_sets_behind_200_that_no_queue_takes_get_real_co_jumbo_jobs_and_the_others_wait(story: Story) -> None:
    n_sets = SETS_OF_OFFER + 5
    task_id = await story.task(
        n_files=n_sets, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 50}, event_service=1, use_jumbo="W"
    )
    chunks = await story.ready(task_id)
    while chunks:
        chunks = [new for one in chunks for new in chunks_in(await story.broker(task_id, one, "J_BETA"))]
    waiting = await waiting_jobs(story, task_id)
    assert len(waiting) == n_sets
    await story.fetch(
        "UPDATE task_files SET ram_count = 1000000 WHERE jobset_id IN"
        " (SELECT job_set_id FROM job_sets WHERE task_id = $1 ORDER BY job_set_id LIMIT $2) RETURNING 1",
        task_id, SETS_OF_OFFER,
    )  # fmt: skip
    said = await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA")
    [following] = chunks_in(said)
    assert generated_in(said) == [], "of the first 200 none fits; those behind them are asked for at once"
    said = await story.broker(task_id, following, "Q_ALPHA")
    assert len(generated_in(said)) == 5 and chunks_in(said) == [], "then the others wait for the next round"
    assert await waiting_jobs(story, task_id) == waiting[:SETS_OF_OFFER]
    assert await story.value("SELECT co_jumbo_retry_at > orrery_now() FROM tasks WHERE task_id = $1", task_id)
    await story.fetch("UPDATE task_files SET ram_count = NULL WHERE task_id = $1 RETURNING 1", task_id)
    assert len(generated_in(await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA"))) == SETS_OF_OFFER
    assert await waiting_jobs(story, task_id) == []


async def test_after_sets_for_which_no_queue_passes_those_behind_them_are_asked_for(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_sets, "SETS_OF_OFFER", 1)
    task_id, [first, second], _ = await only_jumbo(story)
    await story.unplaceable(task_id, await ask_again(story, task_id))
    await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA")
    assert await waiting_jobs(story, task_id) == [first], "the first one waits for the next round"
    await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA")
    assert await waiting_jobs(story, task_id) == [] and second


async def test_who_has_queues_asked_for_anew_before_the_time_asks_for_the_sets_behind(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No queue takes the first: were each round to begin with it, nobody would ever ask for the second."""
    monkeypatch.setattr(waiting_sets, "SETS_OF_OFFER", 1)
    task_id, [first, second], _ = await only_jumbo(story)
    await story.unplaceable(task_id, await ask_again(story, task_id))
    await story.fetch(
        "UPDATE tasks SET co_jumbo_retry_at = orrery_now() + interval '1 hour' WHERE task_id = $1 RETURNING 1", task_id
    )
    [chunk_id] = chunks_in(await story.hear(TaskJumboSwitched(task_id=task_id, enabled=True, asks_again=True)))
    await story.broker(task_id, chunk_id, "Q_ALPHA")
    assert await waiting_jobs(story, task_id) == [first] and second


async def test_a_waiting_set_avoids_the_site_where_its_input_failed(story: Story) -> None:
    task_id, waiting, _ = await only_jumbo(story, n_files=1)
    async with story.database.begin(reason="a rule asks for another site") as work:
        await work.connection.execute("UPDATE task_files SET avoided_site = 'ALPHA' WHERE task_id = $1", task_id)
    await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA", "Q_BETA")
    assert await queues_of(story, task_id) == ["Q_BETA"] and waiting


async def test_copies_are_not_made_at_a_queue_that_cannot_hold_their_input(story: Story) -> None:
    task_id = await heavy(story, rule={"useJobCloning": "storeonce"}, event_service=3)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_SMALL", "Q_BETA")
    rows = await story.fetch(
        "SELECT j.queue, r.disk_mb FROM jobs j JOIN requirement_shapes r USING (shape_id) WHERE j.task_id = $1", task_id
    )
    assert [row for row in rows if row["queue"] == "Q_SMALL" and row["disk_mb"] > 10000] == []


async def test_all_sets_that_wait_ask_for_queues_anew_when_the_switcher_says_so(story: Story) -> None:
    task_id, _, _ = await only_jumbo(story)
    rounds = "SELECT co_jumbo_after > 0 OR co_jumbo_retry_at > orrery_now() FROM tasks WHERE task_id = $1"
    assert await story.value(rounds, task_id) is True, "they wait for their turn"
    switched = TaskJumboSwitched(task_id=task_id, enabled=True)
    assert chunks_in(await story.hear(switched)) == []
    [chunk_id] = chunks_in(await story.hear(switched.model_copy(update={"asks_again": True})))
    assert await story.value("SELECT is_for_waiting FROM chunks WHERE chunk_id = $1", chunk_id) is True
