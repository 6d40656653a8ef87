"""Event service: ranges of a file go to several jobs, and its output is what the merge job writes."""

from __future__ import annotations

from tests import rows
from tests.handlers.job_generation.ranges import begun, ends, es_task, process, ranges, spec_of
from tests.handlers.job_generation.story import Story, generated_in


async def test_ranges_are_made_with_the_jobs_of_a_file(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    found = await story.fetch(
        "SELECT status, attempt_nr, job_process_id, def_min_event_id, def_max_event_id FROM event_ranges"
        " WHERE task_id = $1 ORDER BY job_process_id",
        task_id,
    )
    assert [tuple(row.values()) for row in found] == [
        (0, 10, number, (number - 1) * 10 + 1, number * 10) for number in range(1, 6)
    ]
    spec = await spec_of(story, job_id)
    assert spec["eventService"] == "True" and spec["jobPars"].endswith("--es")
    assert "HITS" in spec["jobPars"] and "HITS" not in spec["outFiles"] and "log" in spec["outFiles"]
    assert spec["jobsetID"] == await story.value("SELECT job_set_id FROM job_set_jobs WHERE job_id = $1", job_id)


async def test_when_all_ranges_are_done_a_merge_job_writes_the_output_of_the_file(story: Story) -> None:
    task_id, [job_id] = await begun(story)
    await process(story, job_id, 5)
    said = await story.end([job_id], "merging")
    assert await ends(story, job_id) == [("merging", "es_merge")]
    [merge_id] = generated_in(said)
    consumer, merge = await spec_of(story, job_id), await spec_of(story, merge_id)
    assert merge["eventServiceMerge"] == "True" and merge["processingType"] == "pmerge"
    assert merge["inFiles"] == consumer["inFiles"]
    assert merge["jobPars"] == consumer["jobPars"]  # the same output under the same name
    assert await story.files(task_id) == ["running"]
    await story.end([merge_id], "finished")
    assert await ends(story, job_id, merge_id) == [("finished", "es_merge"), ("finished", None)]
    assert await ranges(story, task_id) == ["merged"] * 5
    assert (await story.files(task_id), await story.files(task_id, "output")) == (["finished"], ["finished"])
    assert await story.status(task_id) == "prepared"


async def test_a_merge_job_runs_in_the_share_express(story: Story) -> None:
    _, [job_id] = await begun(story)
    async with story.database.read() as connection:
        await connection.execute("INSERT INTO shares (gshare, value, parent) VALUES ('Express', 10, NULL)")
    await process(story, job_id, 5)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    [job] = await story.fetch("SELECT gshare, job_type, current_priority FROM jobs WHERE job_id = $1", merge_id)
    assert job == {"gshare": "Express", "job_type": "merge", "current_priority": 5000}


async def test_a_file_without_events_breaks_the_task_with_the_reason(story: Story) -> None:
    task_id = await es_task(story, n_events=None)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    assert await story.status(task_id) == "tobroken"
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert "has no number of events" in reason


async def test_consumers_share_the_ranges_and_the_last_one_merges(story: Story) -> None:
    task_id, [first, second] = await begun(story, nEsConsumers=2)
    await process(story, first, 3)
    await process(story, second, 2, "running")
    said = await story.end([first], "merging")
    assert generated_in(said) == [] and await ends(story, first) == [("merging", "es_wait")]
    await process(story, second, 2, "finished", of_status="running")
    [merge_id] = generated_in(await story.end([second], "merging"))
    assert await ends(story, first, second) == [("merging", "es_wait"), ("merging", "es_merge")]
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"


async def test_jobs_of_a_set_go_to_as_many_sites_as_the_task_says(story: Story) -> None:
    task_id = await es_task(story, nSitesPerJob=2, nEsConsumers=2)
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id, "Q_ALPHA", "Q_BETA")
    found = await story.fetch(
        "SELECT queue, count(*) AS n FROM jobs WHERE task_id = $1 GROUP BY queue ORDER BY 1", task_id
    )
    assert [(row["queue"], row["n"]) for row in found] == [("Q_ALPHA", 2), ("Q_BETA", 2)]


async def test_with_log_merge_the_merge_job_writes_its_log_into_a_dataset_of_its_own(story: Story) -> None:
    task_id = await es_task(story)
    async with story.database.read() as connection:
        dataset_id = await rows.dataset(
            connection, task_id, dataset_name="mc.merge.log", type="log", stream_name="LOG_MERGE"
        )
        template = {
            "task_id": task_id, "dataset_id": dataset_id, "stream_name": "LOG_MERGE", "out_type": "log",
            "file_name_template": "own.${SN}.tgz",
        }  # fmt: skip
        await rows.insert(connection, "output_templates", template)
    [chunk_id] = await story.ready(task_id)
    [job_id] = generated_in(await story.broker(task_id, chunk_id))
    await story.move([job_id], "running")
    await process(story, job_id, 5)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    consumer, merge = await spec_of(story, job_id), await spec_of(story, merge_id)
    assert consumer["logFile"] == f"log.{task_id}._000001.root" and merge["logFile"] == "own.000001.tgz"
    assert f"log.{task_id}" not in merge["outFiles"]
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"
