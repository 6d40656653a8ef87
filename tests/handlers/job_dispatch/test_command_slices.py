"""A command on many jobs: a few hundred in each transaction, resumed after a crash, the stronger of two wins."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import httpx
import pytest
from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from services.job_dispatch.lifecycle.command_slices import SLICE
from shared.events import TaskCommanded
from shared.runtime.service import Context
from tests.handlers.job_dispatch.calls import acquire, update
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.slices import one_slice, work_off

N_JOBS = 2 * SLICE + 200


class Crashed(Exception):
    """The process died before its commit."""


async def command(rows: Rows, parts: Parts, verb: str, *, soft: bool = False, task_id: int = 1) -> None:
    async with rows.database.begin(reason="test") as work:
        event = TaskCommanded(task_id=task_id, command=verb, status="running", soft=soft)
        await parts.handlers.on_task_commanded(event, work)


async def count(rows: Rows, ids: list[int]) -> dict[str, int]:
    return dict(Counter(await rows.statuses(ids)))


async def under_way(rows: Rows) -> int:
    async with rows.database.read() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM command_progress"))


async def test_a_kill_takes_one_slice_at_a_time_and_its_row_is_gone_when_all_jobs_are(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task_is("aborting")
    await command(rows, parts, "kill")
    assert await count(rows, ids) == {"cancelled": SLICE, "activated": N_JOBS - SLICE}
    assert await under_way(rows) == 1
    assert await one_slice(rows, parts) == SLICE
    assert await count(rows, ids) == {"cancelled": 2 * SLICE, "activated": N_JOBS - 2 * SLICE}
    await work_off(rows, parts)
    assert await count(rows, ids) == {"cancelled": N_JOBS}
    assert await under_way(rows) == 0


async def test_a_process_that_dies_between_and_within_slices_leaves_the_rest_to_the_next(
    rows: Rows, parts: Parts, context: Context
) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task_is("aborting")
    await command(rows, parts, "kill")
    with pytest.raises(Crashed):
        async with rows.database.begin(reason="test") as work:
            assert await parts.commands.slice(work) == SLICE
            raise Crashed
    assert await count(rows, ids) == {"cancelled": SLICE, "activated": N_JOBS - SLICE}
    another = build_parts(replace(context, metrics=CollectorRegistry()))
    await work_off(rows, another)
    assert await count(rows, ids) == {"cancelled": N_JOBS}
    events = await rows.events("jobs.failed.v1")
    assert sorted(one for event in events for one in event["job_ids"]) == ids, "each job is told once"
    assert sum(move["n_jobs"] for event in events for move in event["moves"]) == N_JOBS


async def test_the_same_command_again_goes_on_where_it_is(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task_is("aborting")
    for _ in range(3):  # the sweep says it again
        await command(rows, parts, "kill")
    assert await count(rows, ids) == {"cancelled": N_JOBS}
    assert await under_way(rows) == 0


@pytest.mark.parametrize(
    ("first", "status", "second", "then", "expected"),
    [
        (("pause", False), "paused", ("kill", False), "aborting", "cancelled"),
        (("reassign", True), "reassigning", ("kill", False), "aborting", "cancelled"),
        (("finish", True), "finishing", ("finish", False), "finishing", "closed"),
        (("kill", False), "aborted", ("finish", True), "aborted", "cancelled"),
        (("pause", False), "paused", ("resume", False), "running", "activated"),
    ],
)
async def test_of_two_commands_under_way_the_stronger_one_decides_the_end(
    rows: Rows, parts: Parts, first: tuple[str, bool], status: str, second: tuple[str, bool], then: str, expected: str
) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task_is(status)
    await command(rows, parts, first[0], soft=first[1])
    await rows.task_is(then)
    await command(rows, parts, second[0], soft=second[1])
    await work_off(rows, parts)
    states = await count(rows, ids)
    assert states.pop(expected) > N_JOBS - 2 * SLICE
    assert set(states) <= {"closed"}, "what the first one ended stays ended; nothing is left between"
    assert await under_way(rows) == 0


async def test_a_command_that_its_task_left_behind_stops_between_two_slices(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task_is("paused")
    await command(rows, parts, "pause")
    await rows.task_is("running")
    assert await one_slice(rows, parts) == 0
    assert await count(rows, ids) == {"throttled": SLICE, "activated": N_JOBS - SLICE}
    assert await under_way(rows) == 0


async def test_a_job_whose_report_is_under_way_is_not_waited_for_and_taken_later(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(20, specs=False)
    await rows.task_is("aborting")
    async with rows.database.pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM jobs WHERE job_id = $1 FOR NO KEY UPDATE", ids[5])
        await command(rows, parts, "kill")
        assert await count(rows, ids) == {"cancelled": 19, "activated": 1}
        assert await one_slice(rows, parts) == 0
    await work_off(rows, parts)
    assert await count(rows, ids) == {"cancelled": 20}


async def test_two_replicas_share_the_commands_of_several_tasks_in_turn(rows: Rows, parts: Parts) -> None:
    await rows.task(2, status="aborting")
    first = await rows.jobs(N_JOBS, specs=False)
    second = await rows.jobs(N_JOBS, specs=False, task_id=2)
    await rows.task_is("aborting")
    for task_id in (1, 2):
        await command(rows, parts, "kill", task_id=task_id)
    async with rows.database.begin(reason="one") as one, rows.database.begin(reason="two") as two:
        assert (await parts.commands.slice(one), await parts.commands.slice(two)) == (SLICE, SLICE)
        assert await one_slice(rows, parts) is None, "both are being worked on"
    for ids in (first, second):
        assert (await count(rows, ids))["cancelled"] == 2 * SLICE


async def test_reports_and_acquires_of_another_task_wait_for_no_slice(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    ids = await rows.jobs(N_JOBS, specs=False)
    await rows.task(2)
    (running,) = await rows.jobs(1, status="running", task_id=2)
    (waiting,) = await rows.jobs(1, task_id=2, queue="Q2")
    await rows.task_is("aborting")
    await command(rows, parts, "kill")
    async with rows.database.begin(reason="a slice") as work:
        assert await parts.commands.slice(work) == SLICE
        async with asyncio.timeout(5):
            assert await update(pilot, running, "finished") == "NULL"
            assert (await acquire(pilot, site_name="Q2"))["jobs"][0]["PandaID"] == waiting  # type: ignore[index]
            assert await update(pilot, waiting, "running") == "NULL"
        assert await rows.statuses([running, waiting]) == ["holding", "running"]
        assert await count(rows, ids) == {"cancelled": SLICE, "activated": N_JOBS - SLICE}, "the slice is open"
    assert await count(rows, ids) == {"cancelled": 2 * SLICE, "activated": N_JOBS - 2 * SLICE}
