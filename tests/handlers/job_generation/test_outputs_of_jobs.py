"""The files that a job writes are its own: no further row says so."""

from __future__ import annotations

from tests.handlers.job_generation.story import Story


async def test_the_outputs_of_a_job_are_its_own_rows_and_only_what_it_reads_is_linked(story: Story) -> None:
    task_id = await story.task(n_files=3)
    jobs = await story.jobs_of(task_id)
    links = await story.fetch("SELECT job_id, type FROM job_files WHERE task_id = $1 ORDER BY job_id", task_id)
    assert [tuple(row.values()) for row in links] == [(job_id, "input") for job_id in jobs]
    await story.end(jobs[:2], "finished")
    await story.end(jobs[2:], "failed")
    owned = "SELECT status FROM task_files WHERE out_job_id = $1 AND type = 'output'"
    assert [await story.value(owned, job_id) for job_id in jobs] == ["finished", "finished", "failed"]


async def test_where_a_line_names_its_source_the_place_for_the_permission_is_stored(story: Story) -> None:
    line = "-a jobO.1.tar.gz --sourceURL https://orrery.example:1 -r . -o ${OUTPUT0}"
    plain, sourced = await story.task(n_files=1), await story.task(n_files=1, command_line=line)
    texts = "SELECT spec::text AS text, source_spots FROM job_specs WHERE task_id = $1"
    for task_id in (plain, sourced):
        await story.jobs_of(task_id)
    [made] = await story.fetch(texts, sourced)
    [place] = made["source_spots"]
    assert made["text"][:place].endswith("--sourceURL https://orrery.example:1") and made["text"][place:][:5] == " -r ."
    assert [one["source_spots"] for one in await story.fetch(texts, plain)] == [None]
