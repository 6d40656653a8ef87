"""Tasks with event service for tests, and what pilots do to their ranges."""

from __future__ import annotations

from typing import Any

from shared.states.event_range import CODES, STATUS_OF_CODE, EventRangeStatus
from tests.handlers.job_generation.story import Story, generated_in

LINE = "--in=${IN} --out=${OUTPUT0} <PANDA_ES_ONLY>--es</PANDA_ES_ONLY>"


async def es_task(story: Story, *, n_files: int = 1, n_events: int | None = 50, **rule: Any) -> int:
    """A task whose files have five ranges of ten events each."""
    rule = {"nEventsPerWorker": 10, **rule}
    return await story.task(n_files=n_files, n_events=n_events, command_line=LINE, rule=rule, event_service=1)


async def begun(story: Story, *queues: str, runs: bool = True, **values: Any) -> tuple[int, list[int]]:
    """A task and its first jobs, which run."""
    task_id = await es_task(story, **values)
    [chunk_id] = await story.ready(task_id)
    jobs = generated_in(await story.broker(task_id, chunk_id, *queues))
    if runs:
        await story.move(jobs, "running")
    return task_id, jobs


async def process(
    story: Story,
    job_id: int,
    n_ranges: int,
    to: EventRangeStatus = "finished",
    *,
    of_status: EventRangeStatus = "ready",
) -> None:
    """The pilot of a job takes so many ranges, and brings them into a state."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute(
            "UPDATE event_ranges SET status = $3, job_id = $1 WHERE event_range_id IN ("
            " SELECT r.event_range_id FROM event_ranges r JOIN job_files jf USING (file_id)"
            "  WHERE jf.job_id = $1 AND r.status = $4 AND r.attempt_nr > 0"
            "  ORDER BY r.file_id, r.job_process_id LIMIT $2)",
            job_id,
            n_ranges,
            CODES[to],
            CODES[of_status],
        )


async def ranges(story: Story, task_id: int) -> list[str]:
    """States of a task's ranges, in order of file and event, the newest attempt of each last."""
    found = await story.fetch(
        "SELECT status FROM event_ranges WHERE task_id = $1 ORDER BY file_id, job_process_id, attempt_nr DESC", task_id
    )
    return [STATUS_OF_CODE[row["status"]] for row in found]


async def attempts(story: Story, task_id: int) -> list[int]:
    """Attempts left of the ranges that can be processed."""
    found = await story.fetch(
        "SELECT attempt_nr FROM event_ranges WHERE task_id = $1 AND status = 0 ORDER BY file_id, job_process_id",
        task_id,
    )
    return [row["attempt_nr"] for row in found]


async def ends(story: Story, *job_ids: int) -> list[tuple[str, str | None]]:
    """State and sub-status of jobs."""
    found = await story.fetch(
        "SELECT j.status, m.sub_status FROM jobs j LEFT JOIN job_set_jobs m USING (job_id)"
        " WHERE j.job_id = ANY($1::bigint[]) ORDER BY j.job_id",
        list(job_ids),
    )
    return [(row["status"], row["sub_status"]) for row in found]


async def spec_of(story: Story, job_id: int) -> dict[str, Any]:
    return dict(await story.value("SELECT spec FROM job_specs WHERE job_id = $1", job_id))
