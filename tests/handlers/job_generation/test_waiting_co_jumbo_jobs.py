"""JEDI: Jumbo jobs and co-jumbo jobs: jobs without a queue stand for job sets that no queue takes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from services.job_brokerage.store.chunks import task_history
from services.task_definition.tasks.store.task_files import TaskFiles
from shared.auth import Caller
from shared.catalogue import BuiltInCatalogue
from shared.events import JobsFailed
from shared.runtime.service import Context
from tests.databases import Databases
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.job_generation.jumbo import begin, begun, hourly, is_prepared, jumbo_of, merge_all, put, take
from tests.handlers.job_generation.ranges import LINE, ends, process, ranges
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.handlers.job_generation.test_ends_of_jumbo_jobs import one_step

OPERATOR = Caller("o", frozenset({"operator"}), frozenset())


@pytest.fixture
async def story(context: Context, databases: Databases) -> Story:
    return await begin(context, databases)


async def waiting_jobs(story: Story, task_id: int) -> list[int]:
    """Jobs that stand for job sets, by their state and queue."""
    rows = await story.fetch(
        "SELECT job_id FROM jobs WHERE task_id = $1 AND status = 'waiting' AND queue IS NULL ORDER BY job_id", task_id
    )
    return [row["job_id"] for row in rows]


async def counted(story: Story, task_id: int) -> tuple[int, int]:
    """NFILESWAITING of the input, and how many files have IS_WAITING."""
    [row] = await story.fetch(
        "SELECT sum(n_files_waiting)::int AS n, (SELECT count(*)::int FROM task_files f WHERE f.task_id = $1"
        " AND f.is_waiting) AS n_files FROM task_datasets WHERE task_id = $1",
        task_id,
    )
    return row["n"], row["n_files"]


async def only_jumbo(story: Story, **values: Any) -> tuple[int, list[int], int]:
    """A task for which only a queue for jumbo jobs is free: it, its jobs that wait, and its jumbo job."""
    task_id, _, [jumbo] = await begun(story, "J_BETA", **values)
    return task_id, await waiting_jobs(story, task_id), jumbo


async def test_job_sets_wait_without_a_queue_where_only_jumbo_queues_are_free(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story)
    assert len(waiting) == 2 and await counted(story, task_id) == (2, 2)
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", jumbo) == "J_BETA"
    assert await story.status(task_id) == "running"
    told = [one for one in story.said if waiting[0] in getattr(one, "job_ids", ())]
    assert told == []  # neither dispatch nor statistics hear of them


async def test_job_sets_wait_where_no_queue_is_free_while_a_jumbo_job_lives(story: Story) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, command_line=LINE, rule={"nEventsPerWorker": 10}, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    [chunk_id] = chunks_in(await story.broker(task_id, chunk_id, "Q_ALPHA", "J_BETA", max_jobs=1))
    [jumbo] = await jumbo_of(story, task_id)
    await story.move([jumbo], "running")
    await story.unplaceable(task_id, chunk_id)
    assert len(await waiting_jobs(story, task_id)) == 1 and await counted(story, task_id) == (1, 1)
    await take(story, jumbo, task_id, 10)
    assert await story.value("SELECT count(*) FROM event_ranges WHERE job_id = $1", jumbo) == 10


async def test_without_a_jumbo_job_input_that_no_queue_takes_goes_back(story: Story) -> None:
    task_id = await story.task(
        n_files=1, n_events=50, rule={"nEventsPerWorker": 10}, command_line=LINE, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    await story.unplaceable(task_id, chunk_id)
    assert await waiting_jobs(story, task_id) == [] and await story.files(task_id) == ["ready"]


async def test_where_other_queues_are_full_a_jumbo_job_is_made_and_job_sets_wait_for_real_co_jumbo_jobs(
    story: Story,
) -> None:
    task_id = await story.task(
        n_files=2, n_events=50, rule={"nEventsPerWorker": 10}, command_line=LINE, event_service=1, use_jumbo="W"
    )
    [chunk_id] = await story.ready(task_id)
    await story.unplaceable(task_id, chunk_id, for_jumbo=("J_BETA",))
    assert len(await waiting_jobs(story, task_id)) == 2
    [jumbo] = await jumbo_of(story, task_id)
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", jumbo) == "J_BETA"


async def ask_again(story: Story, task_id: int) -> int:
    """The task's time has come: queues are asked for again."""
    async with story.database.begin(reason="time passes") as work:
        await work.connection.execute("UPDATE tasks SET co_jumbo_retry_at = orrery_now() WHERE task_id = $1", task_id)
    [chunk_id] = chunks_in(await story.look_at_idle_tasks())
    assert await story.value("SELECT is_for_waiting FROM chunks WHERE chunk_id = $1", chunk_id)
    return chunk_id


async def test_a_waiting_job_gives_way_to_real_co_jumbo_jobs(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story, nEsConsumers=2)
    assert await story.value("SELECT co_jumbo_retry_at > orrery_now() FROM tasks WHERE task_id = $1", task_id)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 3)
    real = generated_in(await story.broker(task_id, await ask_again(story, task_id), "Q_ALPHA", "J_BETA"))
    assert len(real) == 4 and await counted(story, task_id) == (0, 0)
    rows = await story.fetch("SELECT DISTINCT queue, status FROM jobs WHERE job_id = ANY($1::bigint[])", real)
    assert [tuple(row.values()) for row in rows] == [("Q_ALPHA", "defined")]
    assert await ends(story, *waiting) == [("closed", "es_unused")] * 2
    assert set(await story.files(task_id)) == {"running"}
    await story.move(real, "running")
    for job_id in real[::2]:  # the second of a set is not needed any more
        await process(story, job_id, 5)
        await story.end([job_id], "merging")
    await story.end([jumbo], "finished")
    await merge_all(story, task_id)
    assert await ranges(story, task_id) == ["merged"] * 10 and await is_prepared(story, task_id)


async def test_waiting_jobs_wait_on_while_no_other_queue_is_free(story: Story) -> None:
    task_id, waiting, _ = await only_jumbo(story)
    chunk_id = await ask_again(story, task_id)
    await story.broker(task_id, chunk_id, "J_BETA")
    assert await waiting_jobs(story, task_id) == waiting
    assert await story.value("SELECT status FROM chunks WHERE chunk_id = $1", chunk_id) == "returned"
    await story.unplaceable(task_id, await ask_again(story, task_id))
    assert await waiting_jobs(story, task_id) == waiting and await counted(story, task_id) == (2, 2)
    assert await story.status(task_id) == "running"


async def test_every_hour_waiting_jobs_end_whose_events_jumbo_jobs_processed(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 10)
    await hourly(story)
    assert await ends(story, *waiting) == [("merging", "es_merge")] * 2 and await counted(story, task_id) == (0, 0)
    [merge, _] = await story.fetch("SELECT queue FROM jobs WHERE task_id = $1 AND job_type = 'merge'", task_id)
    assert merge["queue"] == "J_BETA"  # where the events are
    await story.end([jumbo], "finished")
    await merge_all(story, task_id)
    assert await story.files(task_id) == ["finished"] * 2 and await is_prepared(story, task_id)


async def test_waiting_jobs_of_a_lost_jumbo_job_wait_for_the_next_one(story: Story) -> None:
    task_id, waiting, jumbo = await only_jumbo(story)
    await story.move([jumbo], "running")
    await take(story, jumbo, task_id, 4, "running")
    await story.end([jumbo], "failed", source="watchdog")
    assert await waiting_jobs(story, task_id) == waiting
    assert len(await jumbo_of(story, task_id)) == 2 and (await ranges(story, task_id)).count("ready") == 10


async def test_a_waiting_job_that_is_killed_is_followed_by_another(story: Story) -> None:
    task_id, [waiting], _ = await only_jumbo(story, n_files=1)
    await put(story, "cancelled", waiting)
    await story.hear(JobsFailed(job_ids=(waiting,)))
    [after] = await waiting_jobs(story, task_id)
    assert after != waiting and await counted(story, task_id) == (1, 1)


async def test_scouts_run_at_a_jumbo_queue_where_there_is_no_other(story: Story) -> None:
    task_id = await story.task(
        n_files=1,
        n_events=50,
        command_line=LINE,
        rule={"nEventsPerWorker": 10, "skipScout": None},
        event_service=1,
        use_jumbo="W",
    )
    [chunk_id] = await story.ready(task_id)
    [scout] = generated_in(await story.broker(task_id, chunk_id, "J_BETA"))
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", scout) == "J_BETA"


async def grid_without(story: Story, *gone: str) -> None:
    """The grid of these tests, where some queues left it."""
    grid = small_grid()
    grid["queues"]["J_BETA"] = a_record("J_BETA", "BETA", catchall="useJumboJobs")
    grid["queues"] = {name: {**one, "jobseed": "all"} for name, one in grid["queues"].items() if name not in gone}
    await load_grid(story.database, grid)


async def no_queue_is_left(story: Story) -> tuple[int, int, int]:
    """A set has no queue any more when its job ends, while a jumbo job processes the rest: task, both jobs."""
    task_id, [job_id], [jumbo] = await begun(story, "Q_ALPHA", "J_BETA", n_files=1)
    await story.move([job_id, jumbo], "running")
    await process(story, job_id, 2)
    await take(story, jumbo, task_id, 1, "running")
    async with story.database.begin(reason="the set was ranked before the queue was for jumbo jobs") as work:
        queues = [["Q_ALPHA", "SCORE"]]
        await work.connection.execute("UPDATE job_sets SET queues = $2 WHERE task_id = $1", task_id, queues)
    await grid_without(story, "Q_ALPHA")
    return task_id, job_id, jumbo


async def test_a_set_without_a_queue_waits_while_a_jumbo_job_processes_its_events(story: Story) -> None:
    task_id, job_id, jumbo = await no_queue_is_left(story)
    [chunk_id] = chunks_in(await story.end([job_id], "merging"))  # which asks for queues for the set
    assert await ends(story, job_id) == [("merging", "es_retry")] and await counted(story, task_id) == (1, 1)
    [waiting] = await waiting_jobs(story, task_id)
    assert await ranges(story, task_id) == ["done"] * 2 + ["running"] + ["ready"] * 2
    told = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "no ES queue: Q_ALPHA/SCORE is not in the grid; the events of the task are left to jumbo jobs" in told
    await story.broker(task_id, chunk_id, "J_BETA")
    await take(story, jumbo, task_id, 2)
    await process_all(story, jumbo)
    await story.end([jumbo], "finished")
    await merge_all(story, task_id)
    assert await ranges(story, task_id) == ["merged"] * 5 and await is_prepared(story, task_id)
    assert await ends(story, waiting) == [("closed", "es_unused")] and await story.files(task_id) == ["finished"]


async def process_all(story: Story, jumbo: int) -> None:
    """The pilot of a jumbo job finishes what it has."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute("UPDATE event_ranges SET status = 3 WHERE job_id = $1 AND status = 2", jumbo)


async def test_a_set_without_a_queue_is_given_up_when_no_jumbo_job_lives(story: Story) -> None:
    task_id, job_id, jumbo = await no_queue_is_left(story)
    await grid_without(story, "Q_ALPHA", "J_BETA")
    await story.end([jumbo], "failed", source="pilot")
    await story.end([job_id], "merging")
    assert await ends(story, job_id) == [("failed", "es_noqueue")] and await waiting_jobs(story, task_id) == []


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_waits_when_each_range_is_merged_once_or_its_file_used_its_attempts(
    story: Story, seed: int
) -> None:
    """Mostly only jumbo queues are free, jobs end somehow, and every invariant holds after each step."""
    rng = random.Random(seed)
    task_id, *_ = await begun(story, "J_BETA", "J_GAMMA", nEsConsumers=2, nJumboJobs=2)
    for step in range(120):
        if rng.random() < 0.2:
            await put_retry(story, task_id)
        if rng.random() < 0.1:
            await hourly(story)
        if await one_step(story, task_id, rng, fails=0.25 if step < 40 else 0.0, waits=0.8 if step < 40 else 0.3):
            break
    assert await is_prepared(story, task_id) and await counted(story, task_id) == (0, 0)
    files = await story.files(task_id)
    [row] = await story.fetch(
        "SELECT count(*) AS n, count(DISTINCT (file_id, def_min_event_id)) AS n_distinct FROM event_ranges"
        " WHERE task_id = $1 AND status = 9",
        task_id,
    )
    assert set(files) <= {"finished", "failed"}
    assert row["n"] == row["n_distinct"] == 5 * files.count("finished")


async def put_retry(story: Story, task_id: int) -> None:
    """The task's time has come, if it waits for one."""
    async with story.database.begin(reason="time passes") as work:
        await work.connection.execute(
            "UPDATE tasks SET retry_at = CASE WHEN retry_at IS NOT NULL THEN orrery_now() END,"
            " co_jumbo_retry_at = CASE WHEN co_jumbo_retry_at IS NOT NULL THEN orrery_now() END WHERE task_id = $1",
            task_id,
        )
    await story.look_at_idle_tasks()


async def test_a_job_without_a_queue_is_at_none_of_the_queues_that_a_task_used(story: Story) -> None:
    """Brokerage of analysis sorts their names, and a task file takes nothing but names."""
    task_id, waiting, jumbo = await only_jumbo(story)
    async with story.database.begin(reason="brokerage of analysis") as work:
        history = await task_history(work.connection, task_id)
    assert len(waiting) == 2 and history.queues_used == ("J_BETA",)
    async with story.database.read() as connection:
        [saved] = await TaskFiles(BuiltInCatalogue()).save(connection, [task_id], {}, OPERATOR)
    assert saved.state is not None and saved.state.queues_used == ["J_BETA"]
    assert await story.value("SELECT queue FROM jobs WHERE job_id = $1", jumbo) == "J_BETA"
