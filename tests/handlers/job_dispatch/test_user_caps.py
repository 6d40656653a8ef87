"""Users who run more jobs than the cap wait with the rest (JEDI: Throttled jobs and tasks)."""

from __future__ import annotations

from collections import Counter

import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.lifecycle.user_caps import UserCaps
from shared.config.parameters import Parameters
from tests import rows as table
from tests.handlers.job_dispatch.grid_of_jobs import Rows


@pytest.fixture
def parameters() -> Parameters:
    """At most 10 running jobs of a user and 4 of a working group."""
    found = Parameters()
    found.set_for_test("prio_mgr", "CAP_RUNNING_USER_JOBS", 10.0, app="pandaserver")
    found.set_for_test("prio_mgr", "CAP_RUNNING_GROUP_JOBS", 4.0, app="pandaserver")
    return found


async def analysis(rows: Rows, user: str, *, running: int, activated: int, throttled: int = 0, **task: str) -> int:
    """A task of the user with so many jobs in these states, as the statistics have them."""
    counts = {"running": running, "activated": activated, "throttled": throttled}
    async with rows.database.read() as connection:
        about = {"task_type": "anal", "prod_source_label": "user", "user_name": user, **task}
        task_id = 1 + await connection.fetchval("SELECT max(task_id) FROM tasks")
        await table.task(connection, task_id=task_id, **about)
        key = {"queue": "Q1", "resource_type": "SCORE", "gshare": str(task_id), "user_name": user}
        for status, n_jobs in counts.items():
            counted = {"status": status, "n_jobs": n_jobs, "n_cores": n_jobs}
            await table.insert(connection, "queue_statistics", {**key, **counted})
    for status, n_jobs in counts.items():
        await rows.jobs(n_jobs, status=status, shape="user", task_id=task_id, user_name=user)
    return task_id


async def states(rows: Rows, task_id: int) -> Counter[str]:
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT status FROM jobs WHERE task_id = $1", task_id)
    return Counter(row["status"] for row in found)


async def look(rows: Rows, caps: UserCaps) -> int:
    """Until nothing is left to do; in how many slices."""
    n_slices, more = 0, True
    while more:
        async with rows.database.begin(reason="user-caps") as work:
            more = await caps.look(work)
        n_slices += 1
        assert n_slices < 20
    return n_slices


async def test_activated_jobs_of_a_user_above_the_cap_are_throttled_and_those_of_others_are_not(
    rows: Rows, parts: Parts, parameters: Parameters
) -> None:
    busy = await analysis(rows, "alice", running=11, activated=7)
    at_the_cap = await analysis(rows, "bob", running=10, activated=7)
    production = await analysis(rows, "alice", running=0, activated=3, task_type="prod", prod_source_label="managed")
    assert await look(rows, UserCaps(parts.lifecycle, parameters, size=3)) > 2
    assert await states(rows, busy) == {"running": 11, "throttled": 7}
    assert await states(rows, at_the_cap) == {"running": 10, "activated": 7}
    assert await states(rows, production) == {"activated": 3}
    async with rows.database.read() as connection:
        reasons = {row[0] for row in await connection.fetch("SELECT reason FROM transition_log WHERE entity = 'job'")}
        events = await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key LIKE 'jobs.throttled%'")
    assert reasons == {"user alice: 11 running jobs, at most 10"} and events > 0


async def test_throttled_jobs_go_on_below_nine_tenths_of_the_cap_as_many_as_there_is_room_for(
    rows: Rows, parts: Parts, parameters: Parameters
) -> None:
    free = await analysis(rows, "alice", running=8, activated=0, throttled=5)
    nearly_full = await analysis(rows, "bob", running=9, activated=0, throttled=5)
    paused = await analysis(rows, "carol", running=1, activated=0, throttled=5, status="paused")
    await look(rows, UserCaps(parts.lifecycle, parameters))
    assert await states(rows, free) == {"running": 8, "activated": 2, "throttled": 3}
    assert await states(rows, nearly_full) == {"running": 9, "throttled": 5}
    assert await states(rows, paused) == {"running": 1, "throttled": 5}
    async with rows.database.read() as connection:
        lanes = await connection.fetchval(
            "SELECT body::json -> 'lane_jobs' FROM outbox WHERE routing_key LIKE 'jobs.act%'"
        )
    assert len(lanes) == 2 and {one["queue"] for one in lanes} == {"Q1"}


async def test_jobs_of_a_working_group_count_for_the_group_whoever_runs_them(
    rows: Rows, parts: Parts, parameters: Parameters
) -> None:
    first = await analysis(rows, "alice", running=3, activated=2, working_group="phys")
    second = await analysis(rows, "bob", running=2, activated=2, working_group="phys")
    own = await analysis(rows, "alice", running=8, activated=2)
    await look(rows, UserCaps(parts.lifecycle, parameters))
    assert await states(rows, first) == {"running": 3, "throttled": 2}
    assert await states(rows, second) == {"running": 2, "throttled": 2}
    assert await states(rows, own) == {"running": 8, "activated": 2}


async def test_a_cap_of_one_vo_holds_for_its_tasks_alone(rows: Rows, parts: Parts, parameters: Parameters) -> None:
    parameters.set_for_test("prio_mgr", "CAP_RUNNING_USER_JOBS", 2.0, app="pandaserver", vo="small")
    of_small = await analysis(rows, "alice", running=3, activated=2, vo="small")
    of_demo = await analysis(rows, "alice", running=3, activated=2)
    await look(rows, UserCaps(parts.lifecycle, parameters))
    assert await states(rows, of_small) == {"running": 3, "throttled": 2}
    assert await states(rows, of_demo) == {"running": 3, "activated": 2}
