"""Owners get nothing by commands that the caps of running jobs hold back: pause and resume, new jobs."""

from __future__ import annotations

import asyncio

import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.lifecycle.user_caps import UserCaps
from shared.config.parameters import Parameters
from shared.events import JobsGenerated
from tests.handlers.job_dispatch.grid_of_jobs import Rows
from tests.handlers.job_dispatch.slices import work_off
from tests.handlers.job_dispatch.test_command_slices import command
from tests.handlers.job_dispatch.test_user_caps import analysis, look, set_user, states


@pytest.fixture
async def capped(rows: Rows) -> None:
    """At most 10 jobs of ada run in atlas; there is no cap elsewhere."""
    await set_user(rows, "ada", cap_running_jobs=10, vo="atlas")


async def pause_and_resume(rows: Rows, parts: Parts, task_id: int) -> None:
    for status, verb in (("paused", "pause"), ("running", "resume")):
        await rows.task_is(status, task_id)
        await command(rows, parts, verb, task_id=task_id)
        await work_off(rows, parts)


async def test_pause_and_resume_releases_nothing_that_the_caps_throttled(
    rows: Rows, parts: Parts, capped: None
) -> None:
    task_id = await analysis(rows, "ada", running=11, activated=40, vo="atlas")
    await look(rows, UserCaps(Parameters()))
    assert await states(rows, task_id) == {"running": 11, "throttled": 40}
    await pause_and_resume(rows, parts, task_id)
    assert await states(rows, task_id) == {"running": 11, "throttled": 40}


async def test_a_resumed_task_gets_the_room_that_the_cap_leaves_and_the_rest_follows(
    rows: Rows, parts: Parts, capped: None
) -> None:
    task_id = await analysis(rows, "ada", running=4, activated=40, vo="atlas")
    await pause_and_resume(rows, parts, task_id)
    assert await states(rows, task_id) == {"running": 4, "activated": 6, "throttled": 34}
    async with rows.database.pool.acquire() as connection, connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute(
            "UPDATE jobs SET status = 'finished' WHERE status = 'running' AND task_id = $1", task_id
        )
    await look(rows, UserCaps(Parameters()))
    assert await states(rows, task_id) == {"finished": 4, "activated": 10, "throttled": 30}


async def test_tasks_that_are_resumed_together_share_one_room(rows: Rows, parts: Parts, capped: None) -> None:
    tasks = [await analysis(rows, "ada", running=1, activated=0, throttled=20, vo="atlas") for _ in range(3)]
    await asyncio.gather(*(command(rows, parts, "resume", task_id=task_id) for task_id in tasks))
    await work_off(rows, parts)
    assert sum([(await states(rows, one))["activated"] for one in tasks]) == 7


async def test_who_has_no_cap_resumes_everything_and_so_does_production(rows: Rows, parts: Parts, capped: None) -> None:
    of_cms = await analysis(rows, "ada", running=11, activated=40, vo="cms")
    production = await analysis(
        rows, "ada", running=11, activated=40, vo="atlas", task_type="prod", prod_source_label="managed"
    )
    for task_id in (of_cms, production):
        await pause_and_resume(rows, parts, task_id)
        assert await states(rows, task_id) == {"running": 11, "activated": 40}


@pytest.mark.parametrize(("running", "expected"), [(11, {"throttled": 5}), (8, {"activated": 2, "throttled": 3})])
async def test_new_jobs_of_who_is_held_back_are_held_back_too(
    rows: Rows, parts: Parts, capped: None, running: int, expected: dict[str, int]
) -> None:
    """What a retry, a reassignment or an avalanche makes does not wait for the next look of the caps."""
    await analysis(rows, "ada", running=running, activated=0, throttled=3, vo="atlas")
    task_id = await analysis(rows, "ada", running=0, activated=0, vo="atlas")
    ids = await rows.jobs(5, status="defined", shape="user", task_id=task_id, user_name="ada")
    async with rows.database.begin(reason="test") as work:
        event = JobsGenerated(job_ids=tuple(ids), task_id=task_id, chunk_id=1)
        await parts.handlers.on_jobs_generated(event, work)
    assert await states(rows, task_id) == expected
