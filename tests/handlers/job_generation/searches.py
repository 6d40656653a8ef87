"""Tasks that search hyper-parameters, for tests, and what pilots and optimisers do to their points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.job_dispatch.store.event_ranges import lock_sets_of_jobs, open_points, take_ranges
from shared.states.event_range import CODES
from tests.handlers.job_generation.story import Story, generated_in


async def hpo_task(story: Story, **rule: Any) -> int:
    """A task with one unit of input, whose points are numbered by the task unless its rule says otherwise."""
    rule = {"hpoWorkflow": True, "totNumJobs": 4, "nPointsPerGeneration": 4, **rule}
    rule = {name: value for name, value in rule.items() if value is not None}
    return await story.task(n_files=1, n_events=1, command_line="--out=${OUTPUT0}", rule=rule)


async def begun(story: Story, *queues: str, **rule: Any) -> tuple[int, list[int]]:
    """A task and its first jobs, which run."""
    task_id = await hpo_task(story, **rule)
    [chunk_id] = await story.ready(task_id)
    jobs = generated_in(await story.broker(task_id, chunk_id, *queues))
    await story.move(jobs, "running")
    return task_id, jobs


async def draw(story: Story, job_id: int, n_points: int = 1) -> list[int]:
    """The pilot of a job asks for points: their numbers."""
    async with story.database.begin(reason="the test plays dispatch") as work:
        task_id = await work.connection.fetchval("SELECT task_id FROM jobs WHERE job_id = $1", job_id)
        for set_id in await lock_sets_of_jobs(work.connection, [job_id]):
            await open_points(work.connection, set_id)
        taken = await take_ranges(work.connection, task_id, job_id, n_points)
    return [one.range_id.process_id for one in taken]


async def say(story: Story, job_id: int, points: Sequence[int], status: str = "finished") -> None:
    """The pilot of a job reports points that it has."""
    async with story.database.begin(reason="the test plays dispatch") as work:
        rows = await work.connection.fetch(
            "UPDATE event_ranges SET status = $3 WHERE job_id = $1 AND job_process_id = ANY($2::bigint[])"
            " AND status IN (1, 2) RETURNING event_range_id",
            job_id, list(points), CODES[status],
        )  # fmt: skip
        if status == "failed":
            await work.connection.execute(
                "INSERT INTO event_ranges (task_id, dataset_id, file_id, status, job_process_id, def_min_event_id,"
                " def_max_event_id, attempt_nr, event_offset, job_set_id) SELECT task_id, dataset_id, file_id, 0,"
                " job_process_id, def_min_event_id, def_max_event_id, attempt_nr - 1, event_offset, job_set_id"
                " FROM event_ranges WHERE event_range_id = ANY($1::bigint[])",
                [row["event_range_id"] for row in rows],
            )


async def evaluate(story: Story, job_id: int, n_points: int = 1) -> list[int]:
    """The pilot of a job evaluates so many points."""
    points = await draw(story, job_id, n_points)
    await say(story, job_id, points)
    return points


async def jobs_of(story: Story, task_id: int) -> list[str]:
    found = await story.fetch("SELECT status FROM jobs WHERE task_id = $1 ORDER BY job_id", task_id)
    return [row["status"] for row in found]


async def why(story: Story, task_id: int) -> str:
    """The last decision about the task."""
    return str(await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id))
