"""The states of files as people see them, while jobs are made, run, end and are merged.

Source: JEDI, Transition of file status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from services.task_definition.tasks.store import reads as store_reads
from shared.events import JobsMerging
from tests.handlers.job_generation.story import Story, chunks_in, generated_in
from tests.rows import change


async def shown(story: Story, task_id: int, kind: str = "output") -> list[str]:
    """Of the files of a type, in order."""
    async with story.database.read() as connection:
        found = await store_reads.datasets_and_files(connection, task_id, [kind], 100)
    return [file["shown_status"] for one in found for file in one["files"]]


async def in_state(story: Story, job_id: int, status: str) -> None:
    async with story.database.read() as connection:
        await change(connection, "UPDATE jobs SET status = $2 WHERE job_id = $1", job_id, status)


async def test_an_output_is_defined_running_prepared_and_finished(story: Story) -> None:
    task_id = await story.task(n_files=1)
    [job_id] = await story.jobs_of(task_id)
    seen = []
    for status in ("defined", "assigned", "activated", "sent", "starting", "running", "holding", "transferring"):
        await in_state(story, job_id, status)
        seen += await shown(story, task_id)
    assert seen == ["defined"] * 4 + ["running"] * 2 + ["prepared"] * 2
    await in_state(story, job_id, "defined")
    await story.end([job_id], "finished")
    assert await shown(story, task_id) == ["finished"]
    assert await shown(story, task_id, "log") == ["finished"]


@pytest.mark.parametrize(
    ("end", "expected"), [("failed", "failed"), ("closed", "cancelled"), ("cancelled", "cancelled")]
)
async def test_an_output_of_a_job_that_did_not_succeed_is_failed_or_cancelled(
    story: Story, end: str, expected: str
) -> None:
    task_id = await story.task(n_files=1)
    jobs = await story.jobs_of(task_id)
    await story.end(jobs, end, source="payload" if end == "failed" else None)
    assert (await shown(story, task_id))[0] == expected


async def test_an_output_that_the_job_did_not_write_is_nooutput(story: Story) -> None:
    task_id = await story.task(n_files=1)
    async with story.database.read() as connection:
        await change(
            connection,
            "UPDATE task_datasets SET attributes = '{\"allowNoOutput\": true}' WHERE task_id = $1 AND type = 'output'",
            task_id,
        )
    jobs = await story.jobs_of(task_id)
    log = await story.value("SELECT lfn FROM task_files WHERE task_id = $1 AND type = 'log'", task_id)
    await story.end(jobs, "finished", report=_report({log: {"fsize": 1}}))
    assert await shown(story, task_id) == ["nooutput"]
    assert await shown(story, task_id, "log") == ["finished"]


def _report(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"job_status": "finished", "outputs": dict(outputs)}


async def test_an_unmerged_output_is_prepared_then_merging_then_finished(story: Story) -> None:
    task_id = await story.task(n_files=2, merge=True)
    jobs = await story.jobs_of(task_id)
    assert await shown(story, task_id, "trn_output") == ["defined"] * 2
    await story.move(jobs, "merging")
    said = await story.hear(JobsMerging(job_ids=tuple(jobs)))
    [chunk_id] = chunks_in(said)
    assert await shown(story, task_id, "trn_output") == ["merging"] * 2  # the chunk has them
    async with story.database.read() as connection:
        held = "UPDATE task_files SET status = 'ready', chunk_id = NULL WHERE task_id = $1 AND type = 'trn_output'"
        async with connection.transaction():
            await change(connection, held, task_id)
        assert await shown(story, task_id, "trn_output") == ["prepared"] * 2
        await change(connection, "UPDATE task_files SET status = 'picked', chunk_id = $2 WHERE task_id = $1"
                                 " AND type = 'trn_output'", task_id, chunk_id)  # fmt: skip
    [merge_id] = generated_in(await story.broker(task_id, chunk_id))
    assert await shown(story, task_id, "trn_output") == ["merging"] * 2
    assert await shown(story, task_id) == ["defined"]
    await story.end([merge_id], "finished")
    assert await shown(story, task_id, "trn_output") == ["finished"] * 2
    assert await shown(story, task_id) == ["finished"]


async def test_a_merge_that_is_given_up_fails_the_unmerged_outputs(story: Story) -> None:
    task_id = await story.task(n_files=1, merge=True)
    jobs = await story.jobs_of(task_id)
    await story.move(jobs, "merging")
    chunks = chunks_in(await story.hear(JobsMerging(job_ids=tuple(jobs))))
    for _ in range(3):
        merges = generated_in(await story.broker(task_id, chunks[0]))
        assert await shown(story, task_id, "trn_output") == ["merging"]
        chunks = chunks_in(await story.end(merges, "failed", source="payload"))
    assert "failed" in await shown(story, task_id, "trn_output")


async def test_an_input_is_picked_running_tried_again_and_finished_or_given_up(story: Story) -> None:
    task_id = await story.task(n_files=2)
    chunks = await story.ready(task_id)
    assert await shown(story, task_id, "input") == ["picked"] * 2
    jobs = generated_in(await story.broker(task_id, chunks[0]))
    assert await shown(story, task_id, "input") == ["running"] * 2
    await story.end(jobs[:1], "finished")
    for _ in range(3):
        said = await story.end(jobs[1:], "failed", source="payload")
        seen = await shown(story, task_id, "input")
        for chunk_id in chunks_in(said):
            jobs = [jobs[0], *generated_in(await story.broker(task_id, chunk_id))]
    assert seen == ["finished", "failed"]


async def test_an_input_of_which_some_ranges_of_events_were_processed_is_partial(story: Story) -> None:
    task_id = await story.task(n_files=3)
    async with story.database.read() as connection:
        await change(
            connection,
            "UPDATE task_files f SET lfn = 'one.root', start_event = 10 * n.place, end_event = 10 * n.place + 9"
            "  FROM (SELECT file_id, row_number() OVER (ORDER BY file_id) - 1 AS place FROM task_files"
            "         WHERE task_id = $1 AND type = 'input') n WHERE n.file_id = f.file_id",
            task_id,
        )
    jobs = await story.jobs_of(task_id)
    assert len(jobs) == 3 and await shown(story, task_id, "input") == ["running"] * 3
    await story.end(jobs[:1], "finished")
    assert await shown(story, task_id, "input") == ["partial"] * 3
    await story.end(jobs[1:], "finished")
    assert await shown(story, task_id, "input") == ["finished"] * 3
