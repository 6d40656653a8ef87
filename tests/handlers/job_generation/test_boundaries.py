"""Boundaries that are not split between chunks or jobs."""

from __future__ import annotations

import pytest

from tests.handlers.job_generation.story import Story, chunks_in


async def bounded(story: Story, *boundaries: int | None, opened: int, group: int = 3) -> int:
    rule = {"nFilesPerJob": None, "groupBoundaryID": group, "skipScout": False}
    task_id = await story.task(n_files=len(boundaries), opened=opened, rule=rule)
    async with story.database.begin(reason="test") as work:
        files = await work.connection.fetch(
            "SELECT file_id FROM task_files WHERE task_id = $1 AND type = 'input' ORDER BY file_id", task_id
        )
        await work.connection.executemany(
            "UPDATE task_files SET boundary_id = $2 WHERE file_id = $1",
            [(row["file_id"], boundary) for row, boundary in zip(files, boundaries, strict=True)],
        )
    return task_id


async def boundaries_of_jobs(story: Story) -> list[list[int]]:
    rows = await story.fetch(
        "SELECT array_agg(f.boundary_id ORDER BY f.file_id) AS held FROM job_files jf JOIN task_files f USING (file_id)"
        " WHERE jf.is_master GROUP BY jf.job_id ORDER BY jf.job_id"
    )
    return [row["held"] for row in rows]


async def test_a_chunk_ends_where_a_boundary_ends(story: Story) -> None:
    task_id = await bounded(story, 1, 1, 2, 2, 2, 3, opened=4)
    [chunk_id] = await story.ready(task_id)
    assert await story.files(task_id) == ["picked"] * 5 + ["ready"]
    await story.broker(task_id, chunk_id)
    assert await boundaries_of_jobs(story) == [[1, 1], [2, 2, 2]]


async def test_a_boundary_whose_files_lie_apart_is_in_one_chunk_and_one_job(story: Story) -> None:
    task_id = await bounded(story, 1, 2, 1, 2, opened=1, group=4)
    [chunk_id] = await story.ready(task_id)
    assert await story.files(task_id) == ["picked", "ready", "picked", "ready"]
    await story.broker(task_id, chunk_id)
    assert await boundaries_of_jobs(story) == [[1, 1]]


async def test_a_boundary_whose_job_failed_is_tried_again_whole(story: Story) -> None:
    task_id = await bounded(story, 1, 1, 1, opened=1)
    [first] = await story.jobs_of(task_id)
    [chunk_id] = chunks_in(await story.end([first], "failed", source="payload"))
    await story.broker(task_id, chunk_id)
    assert await boundaries_of_jobs(story) == [[1, 1, 1], [1, 1, 1]]


async def test_a_group_that_may_be_split_ends_with_the_files_that_are_open(story: Story) -> None:
    task_id = await bounded(story, 1, 1, 2, 2, 2, 3, opened=4, group=1)
    await story.ready(task_id)
    assert await story.files(task_id) == ["picked"] * 4 + ["ready"] * 2


async def test_a_chunk_says_what_its_largest_boundary_needs(story: Story) -> None:
    """Four files of 100 events and 1 MB."""
    task_id = await bounded(story, 1, 1, 2, None, opened=4)
    await story.ready(task_id)
    [chunk] = await story.fetch("SELECT largest_boundary FROM chunks")
    assert chunk["largest_boundary"] == {"n_files": 2, "n_events": 200, "n_bytes": 2_000_000, "n_boundaries": 2}


@pytest.mark.parametrize(("group", "boundary"), [(1, 1), (3, None)])
async def test_a_chunk_whose_units_may_be_parted_has_no_largest_boundary(
    story: Story, group: int, boundary: int | None
) -> None:
    task_id = await bounded(story, boundary, boundary, opened=2, group=group)
    await story.ready(task_id)
    assert await story.fetch("SELECT largest_boundary FROM chunks") == [{"largest_boundary": None}]
