"""Merge jobs of the event service say which files to stage, in which object store, and what is in them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.job_generation.ranges import begun, process
from tests.handlers.job_generation.story import Story, generated_in

MERGE_LINE = "--inputHITSFile=@inputFor_${OUTPUT0} --outputHITSFile=${OUTPUT0}"


async def spec_of(story: Story, job_id: int) -> dict[str, Any]:
    [row] = await story.fetch("SELECT spec FROM job_specs WHERE job_id = $1", job_id)
    return dict(row["spec"])


async def in_tars(story: Story, job_id: int) -> list[str]:
    """What a pilot reports: the first three ranges in one tar, the others in another. The names of the ranges."""
    async with story.database.begin(reason="the test plays a pilot") as work:
        for number, below in ((1, 4), (2, 99)):
            await work.connection.execute(
                "WITH z AS (INSERT INTO event_range_files (task_id, job_id, kind, lfn, obj_store_id, size_bytes,"
                " adler32, path_convention)"
                " SELECT task_id, job_id, 'zip', 'ES.' || $2::int || '.tar', 117, 5, '0a1b', 1000"
                "  FROM jobs WHERE job_id = $1 RETURNING zip_row_id)"
                " UPDATE event_ranges SET zip_row_id = (SELECT zip_row_id FROM z)"
                "  WHERE job_id = $1 AND zip_row_id IS NULL AND job_process_id < $3",
                job_id, number, below,
            )  # fmt: skip
    return await names_of(story, job_id)


async def names_of(story: Story, job_id: int) -> list[str]:
    found = await story.fetch(
        "SELECT task_id, job_id, file_id, job_process_id, attempt_nr FROM event_ranges WHERE job_id = $1"
        " ORDER BY job_process_id",
        job_id,
    )
    return ["-".join(map(str, row.values())) for row in found]


@pytest.mark.parametrize("has_own_line", [True, False])
async def test_tars_are_input_to_unpack_and_their_contents_are_listed_for_the_output(
    story: Story, has_own_line: bool
) -> None:
    task_id, [job_id] = await begun(story)
    if has_own_line:
        await story.fetch(
            "UPDATE job_parameters_templates SET job_parameters_template = job_parameters_template"
            " || jsonb_build_object('es_merge', $2::text) WHERE task_id = $1 RETURNING 1",
            task_id, MERGE_LINE,
        )  # fmt: skip
    await process(story, job_id, 5)
    ranges = await in_tars(story, job_id)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    consumer, merge = await spec_of(story, job_id), await spec_of(story, merge_id)
    output = merge["outFiles"].partition(",")[0]
    of_line = [] if has_own_line else [consumer["inFiles"]]
    assert merge["inFiles"].split(",") == [*of_line, "zip://ES.1.tar", "zip://ES.2.tar"]
    assert merge["prodDBlockToken"].split(",")[-2:] == ["117/1000"] * 2
    assert merge["fsize"].split(",")[-2:] == ["5", "5"] and merge["checksum"].split(",")[-2:] == ["ad:0a1b"] * 2
    lists = ("realDatasetsIn", "GUID", "scopeIn", "ddmEndPointIn", "prodDBlocks")
    assert {len(merge[name].split(",")) for name in lists} == {len(of_line) + 2}
    assert merge["writeToFile"] == f"inputFor_{output}:" + ",".join(f"{output}.{name}" for name in ranges)
    if has_own_line:
        assert merge["jobPars"] == f"--inputHITSFile=@inputFor_{output} --outputHITSFile={output}"


async def test_ranges_that_are_files_of_their_own_are_input_one_by_one(story: Story) -> None:
    _, [job_id] = await begun(story)
    await process(story, job_id, 5)
    await story.fetch("UPDATE event_ranges SET obj_store_id = 12 WHERE job_id = $1 RETURNING 1", job_id)
    ranges = await names_of(story, job_id)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    merge = await spec_of(story, merge_id)
    output = merge["outFiles"].partition(",")[0]
    assert merge["inFiles"].split(",")[1:] == [f"{output}.{name}" for name in ranges] and len(ranges) == 5
    assert merge["prodDBlockToken"].split(",")[1:] == ["12"] * 5


async def test_a_merge_job_after_another_reads_what_was_written_under_the_first_name(story: Story) -> None:
    _, [job_id] = await begun(story)
    await process(story, job_id, 5)
    ranges = await in_tars(story, job_id)
    [first] = generated_in(await story.end([job_id], "merging"))
    [again] = generated_in(await story.end([first], "failed", source="pilot"))
    was, now = [(await spec_of(story, one))["outFiles"].partition(",")[0] for one in (first, again)]
    assert was != now
    listed = (await spec_of(story, again))["writeToFile"]
    assert listed == f"inputFor_{now}:" + ",".join(f"{was}.{name}" for name in ranges)
