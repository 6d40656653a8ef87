"""mergeEsOnOS: events are merged at a queue that names the object store where their files are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_generation.ranges import begun, process
from tests.handlers.job_generation.story import Story, generated_in

STORE = 117


async def grid_with_stores(story: Story, of_gamma: dict[str, Any] | None = None, **stores: object) -> None:
    """The small grid where these queues name object stores, and Q_GAMMA differs."""
    grid = small_grid()
    for name, record in grid["queues"].items():
        record["jobseed"] = "all"
        record["objectstores"] = [stores[name]] if name in stores else None
    grid["queues"]["Q_GAMMA"].update(of_gamma or {})
    await load_grid(story.database, grid)


async def merge_of(
    story: Story, stores: list[int | None], *, rule: bool = True, trans_uses: str | None = None
) -> tuple[int, int]:
    """A task, and the merge job of a set whose events were processed at Q_ALPHA."""
    task_id, [job_id] = await begun(story, "Q_ALPHA", mergeEsOnOS=rule)
    await process(story, job_id, 5)
    async with story.database.begin(reason="the test plays a pilot") as work:
        await work.connection.execute(
            "UPDATE event_ranges r SET obj_store_id = w.store FROM unnest($2::int[]) WITH ORDINALITY AS w (store, n)"
            " WHERE r.task_id = $1 AND 1 + r.job_process_id % cardinality($2::int[]) = w.n",
            task_id,
            stores,
        )
        await work.connection.execute("UPDATE tasks SET trans_uses = $2 WHERE task_id = $1", task_id, trans_uses)
    [merge_id] = generated_in(await story.end([job_id], "merging"))
    return task_id, merge_id


async def place_of(story: Story, task_id: int, merge_id: int) -> tuple[str, str]:
    """The queue of a merge job that finishes then, and what the task says last."""
    told = await story.value("SELECT reason FROM generation_decisions WHERE task_id = $1", task_id)
    queue = str(await story.value("SELECT queue FROM jobs WHERE job_id = $1", merge_id))
    await story.end([merge_id], "finished")
    assert await story.status(task_id) == "prepared"
    return queue, str(told or "")


async def merged_at(story: Story, stores: list[int | None], *, rule: bool = True) -> tuple[str, str]:
    """Where the events of a set are merged that were processed at Q_ALPHA; and what the task says last."""
    return await place_of(story, *await merge_of(story, stores, rule=rule))


@pytest.mark.parametrize("named", [STORE, str(STORE), {"os_bucket_id": STORE, "os_bucket_name": "EVENTS"}])
async def test_the_merge_job_goes_to_the_queue_that_names_the_store_of_the_files(story: Story, named: object) -> None:
    await grid_with_stores(story, Q_GAMMA=named, Q_BETA=118)
    assert await merged_at(story, [STORE]) == ("Q_GAMMA", "")


async def test_a_queue_of_the_set_that_names_the_store_goes_before_others(story: Story) -> None:
    await grid_with_stores(story, Q_ALPHA=STORE, Q_BETA=STORE)
    assert (await merged_at(story, [STORE]))[0] == "Q_ALPHA"


async def test_without_the_parameter_stores_of_queues_decide_nothing(story: Story) -> None:
    await grid_with_stores(story, Q_GAMMA=STORE)
    assert await merged_at(story, [STORE], rule=False) == ("Q_ALPHA", "")


@pytest.mark.parametrize(
    ("stores", "named", "why"),
    [
        ([STORE, 118], {"Q_GAMMA": STORE}, "its files are in several object stores (117, 118)"),
        ([STORE, None], {"Q_GAMMA": STORE}, "it is not known in which object store all of its files are"),
        ([STORE], {"Q_BETA": 118}, "no online queue for it names object store 117"),
        ([STORE], {"Q_DELTA": STORE}, "no online queue for it names object store 117"),  # it is offline
    ],
)
async def test_without_one_store_or_a_queue_that_names_it_a_queue_of_the_set_merges_and_the_task_says_why(
    story: Story, stores: list[int | None], named: dict[str, int], why: str
) -> None:
    await grid_with_stores(story, **named)
    queue, told = await merged_at(story, stores)
    assert queue == "Q_ALPHA" and told.endswith(f"is merged at a queue of its own (mergeEsOnOS): {why}")


@pytest.mark.parametrize(
    ("of_gamma", "why"),
    [
        ({"maxrss": 100}, "; Q_GAMMA/SCORE: needs 900 MB of memory, Q_GAMMA has 12"),
        ({"releases": ["Other-1.0"]}, ""),
    ],
)
async def test_a_queue_that_names_the_store_but_cannot_run_the_merge_job_is_passed_over(
    story: Story, of_gamma: dict[str, Any], why: str
) -> None:
    await grid_with_stores(story, of_gamma, Q_GAMMA=STORE)
    queue, told = await place_of(story, *await merge_of(story, [STORE], trans_uses="Atlas-21.0.38"))
    assert queue == "Q_ALPHA" and told.endswith(f"no online queue for it names object store {STORE}{why}")


async def test_a_merge_job_that_no_pilot_took_at_a_queue_of_the_store_is_made_at_the_next_one(story: Story) -> None:
    await grid_with_stores(story, Q_GAMMA=STORE, Q_BETA=STORE)
    task_id, merge_id = await merge_of(story, [STORE])
    places = list[str]()
    for _ in range(3):
        places.append(str(await story.value("SELECT queue FROM jobs WHERE job_id = $1", merge_id)))
        [merge_id] = generated_in(await story.end([merge_id], "closed", source="watchdog"))
    queue, told = await place_of(story, task_id, merge_id)
    assert places == ["Q_BETA", "Q_GAMMA", "Q_ALPHA"] and queue == "Q_ALPHA"
    assert told.endswith("Q_GAMMA/SCORE: a job was taken back there before it ran")
