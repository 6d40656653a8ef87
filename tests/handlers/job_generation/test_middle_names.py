"""Output names that take fields of input names along (addNthFieldToLFN, useFileAsSourceLFN)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.job_generation.story import Story


async def named_task(story: Story, lfns: list[str], **rule: Any) -> int:
    """A task with files of these names, whose output has a middle name."""
    task_id = await story.task(n_files=len(lfns), rule={"nFilesPerJob": 3, **rule})
    async with story.database.begin(reason="as definition leaves it") as work:
        ids = await work.connection.fetch("SELECT file_id FROM task_files WHERE task_id = $1 ORDER BY 1", task_id)
        for row, lfn in zip(ids, lfns, strict=True):
            await work.connection.execute("UPDATE task_files SET lfn = $2 WHERE file_id = $1", row["file_id"], lfn)
        await work.connection.execute(
            "UPDATE output_templates SET file_name_template = 'user.ada${MIDDLENAME}._${SN/P}.root'"
            " WHERE stream_name = 'OUTPUT0'"
        )
        await work.connection.execute(
            "UPDATE task_datasets SET dataset_name = 'mc.700123.evnt.e8500' WHERE type = 'input'"
        )
    return task_id


async def written(story: Story, task_id: int) -> list[tuple[str, int]]:
    """The output of each job, and how many files it reads."""
    await story.jobs_of(task_id)
    specs = await story.fetch("SELECT spec FROM job_specs WHERE task_id = $1 ORDER BY job_id", task_id)
    return [(row["spec"]["outFiles"].partition(",")[0], len(row["spec"]["inFiles"].split(","))) for row in specs]


async def test_fields_of_the_datasets_name_are_in_the_names_of_outputs(story: Story) -> None:
    task_id = await named_task(story, ["a.1", "b.2", "c.3", "d.4"], addNthFieldToLFN="2,4")
    assert await written(story, task_id) == [
        ("user.ada.700123.e8500._000001.root", 3),
        ("user.ada.700123.e8500._000002.root", 1),
    ]


async def test_files_whose_names_have_other_fields_are_in_jobs_of_their_own(story: Story) -> None:
    lfns = ["run.1._01.root", "run.1._02.root", "run.2._03.root", "run.2._04.root", "run.2._05.root", "run.2._06.root"]
    task_id = await named_task(story, lfns, addNthFieldToLFN="2", useFileAsSourceLFN=True)
    assert await written(story, task_id) == [
        ("user.ada.1._000001.root", 2),
        ("user.ada.2._000002.root", 3),
        ("user.ada.2._000003.root", 1),
    ]


async def test_a_field_that_a_name_has_not_is_left_out(story: Story) -> None:
    task_id = await named_task(story, ["a.1"], addNthFieldToLFN="3,9")
    assert await written(story, task_id) == [("user.ada.evnt._000001.root", 1)]


async def test_a_name_that_becomes_too_long_breaks_the_task_with_the_reason(story: Story) -> None:
    task_id = await named_task(story, [f"{'x' * 245}.1"], addNthFieldToLFN="1", useFileAsSourceLFN=True)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    assert await story.status(task_id) == "tobroken"
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "MIDDLENAME" in reason and "makes a file name of more than 250 characters" in reason


@pytest.mark.parametrize("rule", [{}, {"nFilesPerJob": 2}])
async def test_without_fields_the_middle_name_is_empty(story: Story, rule: dict[str, int]) -> None:
    task_id = await named_task(story, ["a.1"], **rule)
    assert await written(story, task_id) == [("user.ada._000001.root", 1)]
