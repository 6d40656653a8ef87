"""Jobs of a task with template datasets write to a dataset of their site."""

from __future__ import annotations

from typing import Any

from tests.handlers.job_generation.story import Story, chunks_in

OF_SITES = (
    "SELECT d.site, d.type, d.status, d.dataset_name, d.container_name, t.dataset_name AS template, d.n_files,"
    " d.provenance_id FROM task_datasets d JOIN task_datasets t ON t.dataset_id = d.template_id"
    " WHERE d.task_id = $1 AND d.site IS NOT NULL ORDER BY d.dataset_id"
)


async def a_task_with_templates(story: Story, **values: Any) -> int:
    task_id = await story.task(task_type="anal", prod_source_label="user", **values)
    await story.fetch(
        "UPDATE task_datasets SET type = 'tmpl_' || type, container_name = 'user.' || type, provenance_id = 7"
        " WHERE task_id = $1 AND type IN ('output', 'log') RETURNING 1",
        task_id,
    )
    return task_id


async def specs(story: Story, task_id: int) -> dict[str, list[Any]]:
    """By site of the jobs: their output datasets and names."""
    found: dict[str, list[Any]] = {}
    for row in await story.fetch(
        "SELECT j.queue, s.spec FROM jobs j JOIN job_specs s USING (job_id) WHERE j.task_id = $1 ORDER BY job_id",
        task_id,
    ):
        spec = row["spec"]
        found.setdefault(row["queue"], []).append((spec["realDatasets"], spec["destinationDblock"], spec["outFiles"]))
    return found


async def test_each_chosen_site_gets_one_dataset_of_each_template(story: Story) -> None:
    task_id = await a_task_with_templates(story, n_files=3)
    [chunk] = await story.ready(task_id)
    said = await story.broker(task_id, chunk, "Q_ALPHA", max_jobs=1)
    for queue in ("Q_BETA", "Q_ALPHA"):
        [chunk] = chunks_in(said)
        said = await story.broker(task_id, chunk, queue, max_jobs=1)
    rows = await story.fetch(OF_SITES, task_id)
    assert [(row["site"], row["type"], row["status"], row["n_files"]) for row in rows] == [
        ("ALPHA", "output", "running", 2), ("ALPHA", "log", "running", 2),
        ("BETA", "output", "running", 1), ("BETA", "log", "running", 1),
    ]  # fmt: skip
    assert all(row["dataset_name"].startswith(f"{row['template']}.") for row in rows)
    assert {(row["type"], row["container_name"], row["provenance_id"]) for row in rows} == {
        ("output", "user.output", 7), ("log", "user.log", 7),
    }  # fmt: skip
    names = {row["site"]: [] for row in rows}
    for row in rows:
        names[row["site"]].append(row["dataset_name"])
    found = await specs(story, task_id)
    for queue, site in (("Q_ALPHA", "ALPHA"), ("Q_BETA", "BETA")):
        assert {one[:2] for one in found[queue]} == {(",".join(names[site]), ",".join(names[site]))}
    files = [lfn for jobs in found.values() for _, _, lfns in jobs for lfn in lfns.split(",")]
    assert len(files) == len(set(files)) == 6
    written = "SELECT DISTINCT type FROM task_files WHERE task_id = $1 AND out_job_id IS NOT NULL ORDER BY type"
    assert [row["type"] for row in await story.fetch(written, task_id)] == ["log", "output"]


async def test_merge_jobs_write_to_the_dataset_of_the_site_and_their_input_does_not(story: Story) -> None:
    task_id = await a_task_with_templates(story, n_files=2, merge=True)
    jobs = await story.jobs_of(task_id)
    assert await story.fetch(OF_SITES, task_id) == []
    said = await story.end(jobs, "merging")
    [chunk] = chunks_in(said)
    await story.broker(task_id, chunk, "Q_ALPHA")
    rows = await story.fetch(OF_SITES, task_id)
    assert [(row["site"], row["type"], row["n_files"]) for row in rows] == [("ALPHA", "output", 1), ("ALPHA", "log", 1)]
