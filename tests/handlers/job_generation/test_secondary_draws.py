"""Secondary datasets whose files are taken at random."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from services.job_generation.app import build
from services.job_generation.supplying import pooling
from shared.events import Event
from shared.runtime.service import Context
from tests.handlers.events import started
from tests.handlers.job_generation.story import Story, chunks_in, generated_in

_TAKEN = (
    "SELECT array_agg(f.lfn ORDER BY f.lfn) AS names FROM job_files jf JOIN task_files f USING (file_id)"
    " JOIN task_datasets d ON d.dataset_id = f.dataset_id WHERE d.stream_name = 'IN_MINBIAS' AND jf.task_id = $1"
    " GROUP BY jf.job_id ORDER BY jf.job_id"
)


async def taken(story: Story, context: Context, seed: int, **secondary: object) -> Sequence[list[str]]:
    """Names of the secondary files of each job of a new task, with a service whose random numbers start there."""
    story.service = await started(build(replace(context, random=random.Random(seed))))
    task_id = await story.task(n_files=8, secondary={"n_files": 40, **secondary})
    await story.jobs_of(task_id)
    return [row["names"] for row in await story.fetch(_TAKEN, task_id)]


async def test_random_files_are_drawn_and_the_same_seed_draws_the_same(story: Story, context: Context) -> None:
    first = await taken(story, context, 1, random=True, ratio=2)
    names = [name for job in first for name in job]
    assert [len(job) for job in first] == [2] * 8 and len(set(names)) == 16
    assert names != sorted(names) and max(names) > "minbias._00016.root"  # not the first sixteen, in order
    assert await taken(story, context, 1, random=True, ratio=2) == first
    assert await taken(story, context, 2, random=True, ratio=2) != first


async def test_without_the_attribute_files_are_taken_in_order(story: Story, context: Context) -> None:
    found = await taken(story, context, 1, ratio=2)
    assert [name for job in found for name in job] == [f"minbias._{number:05d}.root" for number in range(16)]


async def test_the_seed_of_a_chunk_is_kept_when_it_becomes_jobs(story: Story) -> None:
    task_id = await story.task(n_files=2, secondary={"n_files": 4, "random": True})
    [chunk_id] = await story.ready(task_id)
    assert await story.value("SELECT seed FROM chunks WHERE chunk_id = $1", chunk_id) is None
    await story.broker(task_id, chunk_id)
    seed = await story.value("SELECT seed FROM chunks WHERE chunk_id = $1", chunk_id)
    drawn = await story.fetch(
        "SELECT f.lfn FROM task_files f JOIN task_datasets d USING (dataset_id) WHERE f.task_id = $1"
        " AND d.stream_name = 'IN_MINBIAS' ORDER BY hashtextextended(f.lfn, $2) LIMIT 2",
        task_id,
        seed,
    )
    used = await story.fetch(_TAKEN, task_id)
    assert [row["names"] for row in used] == [[row["lfn"]] for row in drawn]


@pytest.mark.parametrize(("attributes", "events", "expected"), [
    ({"eventRatio": 3}, [100] * 12, [3] * 4),
    ({"eventRatio": 0.5}, [100] * 12, [1] * 4),
    ({"eventRatio": 2.5}, [100] * 12, [3] * 4),
    ({"eventRatio": 1}, [1, 500] * 6, [2] * 4),
    ({"eventRatio": 3, "random": True}, [100] * 12, [3] * 4),
    ({"eventRatio": 3, "nFilesPerJob": 2}, [100] * 12, [2] * 4),
])  # fmt: skip
async def test_one_chunk_has_all_the_secondary_files_that_its_jobs_take_by_the_ratio_of_events(
    story: Story, attributes: dict[str, object], events: list[int], expected: list[int]
) -> None:
    """Four master files of 100 events, each a job."""
    task_id = await story.task(n_files=4, secondary={"n_files": 12, **attributes})
    async with story.database.read() as connection:
        await connection.execute(
            "UPDATE task_files f SET n_events = e.n FROM unnest($2::text[], $3::int[]) AS e (lfn, n)"
            " WHERE f.task_id = $1 AND f.lfn = e.lfn",
            task_id,
            [f"minbias._{number:05d}.root" for number in range(12)],
            events,
        )
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    assert [len(row["names"]) for row in await story.fetch(_TAKEN, task_id)] == expected


async def short_of_secondaries(story: Story, *, failed: int = 0, is_open: bool = False) -> tuple[int, Sequence[Event]]:
    """A task of 20 files, of which each job takes one of 7 secondary files; its first jobs ended, some failed."""
    task_id = await story.task(n_files=20, secondary={"n_files": 7, "nFilesPerJob": 1})
    async with story.database.read() as connection:
        state = "UPDATE task_datasets SET state = $2 WHERE task_id = $1 AND type = 'input'"
        await connection.execute(state, task_id, "open" if is_open else "closed")
    jobs = await story.jobs_of(task_id)
    assert len(jobs) == 7 and await story.status(task_id) == "running"
    if failed:
        await story.end(jobs[:failed], "failed", source="payload")
    return task_id, await story.end(jobs[failed:], "finished")


async def test_a_task_whose_secondary_dataset_ran_out_ends_with_what_it_has_once_its_last_job_ended(
    story: Story,
) -> None:
    task_id, said = await short_of_secondaries(story)
    [chunk_id] = chunks_in(said)
    assert generated_in(await story.broker(task_id, chunk_id)) == []
    assert await story.status(task_id) == "prepared"
    found = await story.fetch(
        "SELECT f.status FROM task_files f JOIN task_datasets d USING (dataset_id)"
        " WHERE d.task_id = $1 AND d.type = 'input' AND d.master_id IS NULL ORDER BY file_id",
        task_id,
    )
    assert [row["status"] for row in found] == ["finished"] * 7 + ["failed"] * 13
    reason = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    assert reason == (
        f"secondary dataset mc.minbias.{task_id} has not enough unused files for another job, and nothing adds files to"
        " it: 13 units of input are left out"
    )


async def test_secondary_files_of_jobs_that_failed_are_used_before_the_task_ends(story: Story) -> None:
    task_id, said = await short_of_secondaries(story, failed=2)
    [chunk_id] = chunks_in(said)
    again = generated_in(await story.broker(task_id, chunk_id))
    assert len(again) == 2 and await story.status(task_id) == "running"


async def test_a_task_whose_open_secondary_dataset_ran_out_is_pending_with_the_reason_and_waits_from_then_on(
    story: Story,
) -> None:
    task_id, said = await short_of_secondaries(story, is_open=True)
    [chunk_id] = chunks_in(said)
    since = []
    for _ in range(2):
        assert generated_in(await story.broker(task_id, chunk_id)) == []
        [task] = await story.fetch("SELECT status, error_dialog, frozen_time FROM tasks WHERE task_id = $1", task_id)
        assert task["status"] == "pending"
        assert f"secondary dataset mc.minbias.{task_id} has not enough unused files" in task["error_dialog"]
        since.append(task["frozen_time"])
        [chunk_id] = chunks_in(await story.released(task_id))
    assert since[0] is not None and since[0] == since[1]


@pytest.mark.parametrize("n_files", [3, 10, 16, 20])
async def test_every_file_of_a_large_repeated_dataset_is_used_before_one_comes_again(
    story: Story, monkeypatch: pytest.MonkeyPatch, n_files: int
) -> None:
    monkeypatch.setattr(pooling, "MOST_SECONDARY_FILES", 4)
    task_id = await story.task(n_files=8, secondary={"n_files": n_files, "repeat": True, "ratio": 2})
    await story.jobs_of(task_id)
    found = [name for row in await story.fetch(_TAKEN, task_id) for name in row["names"]]
    times = sorted(Counter(found).values())
    assert (sum(times), len(times)) == (16, min(n_files, 16))
    assert times[-1] - times[0] <= 1, "none is used twice more than another"


async def test_a_large_repeated_dataset_is_read_on_from_where_it_was_and_then_from_its_first_file(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "MOST_SECONDARY_FILES", 2)
    task_id = await story.task(n_files=4, secondary={"n_files": 6, "repeat": True, "ratio": 1})
    await story.jobs_of(task_id)
    found = [name for row in await story.fetch(_TAKEN, task_id) for name in row["names"]]
    assert found == [f"minbias._{number:05d}.root" for number in (4, 5, 0, 1)]


async def test_a_job_that_would_read_all_of_a_too_large_dataset_breaks_its_task_and_says_why(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "MOST_SECONDARY_FILES", 4)
    task_id = await story.task(n_files=2, secondary={"n_files": 5, "nosplit": True})
    [chunk_id] = await story.ready(task_id)
    await story.broker(task_id, chunk_id)
    [row] = await story.fetch("SELECT status, error_dialog FROM tasks WHERE task_id = $1", task_id)
    assert row == {
        "status": "tobroken",
        "error_dialog": f"jobs cannot be defined: each job takes all 5 files of secondary dataset mc.minbias.{task_id}"
        " (nosplit); allowed: at most 4",
    }
