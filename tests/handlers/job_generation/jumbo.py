"""Tasks with jumbo jobs for tests, and what the pilots of these do to ranges."""

from __future__ import annotations

from typing import Any

from services.job_dispatch.store.event_ranges import copy_failed
from shared.events import JobsFailed
from shared.runtime.service import Context
from shared.states.event_range import CODES
from tests.databases import Databases
from tests.handlers.grids import a_record, load_grid, small_grid
from tests.handlers.job_generation.ranges import LINE
from tests.handlers.job_generation.story import Story, generated_in


async def begin(context: Context, databases: Databases) -> Story:
    """The small grid with queues for jumbo jobs at three sites."""
    found = await Story.begin(context, databases)
    grid = small_grid()
    for name, site, more in (
        ("J_BETA", "BETA", ""),
        ("J_GAMMA", "GAMMA", ""),
        ("J_LARGE", "ALPHA", ",minEventsForJumbo=50"),
    ):
        grid["queues"][name] = a_record(name, site, catchall=f"useJumboJobs{more}")
    for record in grid["queues"].values():
        record["jobseed"] = "all"
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


async def report(story: Story, job_id: int, *states: str) -> None:
    """The pilot of a job reports single ranges that it processes failed or fatal, stored as dispatch does."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        for state in states:
            moved = await work.connection.fetchrow(
                "UPDATE event_ranges SET status = $2 WHERE event_range_id ="
                " (SELECT min(event_range_id) FROM event_ranges WHERE job_id = $1 AND status = 2)"
                " RETURNING task_id, event_range_id",
                job_id, CODES[state],
            )  # fmt: skip
            if state == "failed" and moved is not None:
                await copy_failed(work.connection, moved["task_id"], [moved["event_range_id"]])


async def hourly(story: Story) -> tuple[list[int], bool]:
    """The hourly look at co-jumbo jobs; the jobs that it made, and whether it left some for another slice."""
    periodic = next(one for one in story.service.periodic if one.name == "finish-co-jumbo-jobs")
    assert periodic.every_s == 3600
    async with story.database.begin(reason="periodic") as work:
        more = await periodic.run(work)
        made = generated_in(work.emitted)
    await story.check()
    return made, bool(more)


async def put(story: Story, status: str, *job_ids: int) -> None:
    """Dispatch brings jobs into a state at once."""
    async with story.database.begin(reason="the test plays dispatch") as work:
        await work.connection.execute("UPDATE jobs SET status = $2 WHERE job_id = ANY($1::bigint[])", job_ids, status)


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
