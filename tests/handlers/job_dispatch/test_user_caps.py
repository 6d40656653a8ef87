"""Users who run more jobs than the cap wait with the rest (JEDI: Throttled jobs and tasks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from services.job_dispatch.lifecycle.balancing import Balancing
from services.job_dispatch.lifecycle.reordering import Reordering
from services.job_dispatch.lifecycle.user_caps import UserCaps
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
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
        key["vo"] = task.get("vo", "demo")
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


async def balance(rows: Rows, balancing: Balancing) -> int:
    """One whole look; in how many slices."""
    n_slices, more = 0, True
    while more:
        async with rows.database.begin(reason="priority-balance") as work:
            more = await balancing.look(work)
        n_slices += 1
    return n_slices


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
    rows: Rows, parameters: Parameters
) -> None:
    busy = await analysis(rows, "alice", running=11, activated=7)
    at_the_cap = await analysis(rows, "bob", running=10, activated=7)
    production = await analysis(rows, "alice", running=0, activated=3, task_type="prod", prod_source_label="managed")
    assert await look(rows, UserCaps(parameters, size=3)) > 2
    assert await states(rows, busy) == {"running": 11, "throttled": 7}
    assert await states(rows, at_the_cap) == {"running": 10, "activated": 7}
    assert await states(rows, production) == {"activated": 3}
    async with rows.database.read() as connection:
        reasons = {row[0] for row in await connection.fetch("SELECT reason FROM transition_log WHERE entity = 'job'")}
        events = await connection.fetchval("SELECT count(*) FROM outbox WHERE routing_key LIKE 'jobs.throttled%'")
    assert reasons == {"user alice: 11 running jobs, at most 10"} and events > 0


async def test_throttled_jobs_go_on_below_nine_tenths_of_the_cap_as_many_as_there_is_room_for(
    rows: Rows, parameters: Parameters
) -> None:
    free = await analysis(rows, "alice", running=8, activated=0, throttled=5)
    nearly_full = await analysis(rows, "bob", running=9, activated=0, throttled=5)
    paused = await analysis(rows, "carol", running=1, activated=0, throttled=5, status="paused")
    await look(rows, UserCaps(parameters))
    assert await states(rows, free) == {"running": 8, "activated": 2, "throttled": 3}
    assert await states(rows, nearly_full) == {"running": 9, "throttled": 5}
    assert await states(rows, paused) == {"running": 1, "throttled": 5}
    async with rows.database.read() as connection:
        lanes = await connection.fetchval(
            "SELECT body::json -> 'lane_jobs' FROM outbox WHERE routing_key LIKE 'jobs.act%'"
        )
    assert len(lanes) == 2 and {one["queue"] for one in lanes} == {"Q1"}


async def test_jobs_of_a_working_group_count_for_the_group_whoever_runs_them(
    rows: Rows, parameters: Parameters
) -> None:
    first = await analysis(rows, "alice", running=3, activated=2, working_group="phys")
    second = await analysis(rows, "bob", running=2, activated=2, working_group="phys")
    own = await analysis(rows, "alice", running=8, activated=2)
    await look(rows, UserCaps(parameters))
    assert await states(rows, first) == {"running": 3, "throttled": 2}
    assert await states(rows, second) == {"running": 2, "throttled": 2}
    assert await states(rows, own) == {"running": 8, "activated": 2}


async def test_a_cap_of_one_vo_holds_for_its_tasks_alone(rows: Rows, parameters: Parameters) -> None:
    parameters.set_for_test("prio_mgr", "CAP_RUNNING_USER_JOBS", 2.0, app="pandaserver", vo="small")
    of_small = await analysis(rows, "alice", running=3, activated=2, vo="small")
    of_demo = await analysis(rows, "alice", running=3, activated=2)
    await look(rows, UserCaps(parameters))
    assert await states(rows, of_small) == {"running": 3, "throttled": 2}
    assert await states(rows, of_demo) == {"running": 3, "activated": 2}


async def set_user(rows: Rows, name: str, **columns: object) -> None:
    async with rows.database.read() as connection:
        await table.insert(connection, "users", {"user_name": name, **columns})


async def test_a_cap_of_a_user_s_own_holds_instead_of_that_of_everybody(rows: Rows, parameters: Parameters) -> None:
    few = await analysis(rows, "alice", running=3, activated=4)
    many = await analysis(rows, "bob", running=15, activated=4)
    await set_user(rows, "alice", cap_running_jobs=2)
    await set_user(rows, "bob", cap_running_jobs=20)
    await look(rows, UserCaps(parameters))
    assert await states(rows, few) == {"running": 3, "throttled": 4}
    assert await states(rows, many) == {"running": 15, "activated": 4}


async def test_cores_of_a_working_group_above_its_cap_hold_its_jobs_back(rows: Rows, parameters: Parameters) -> None:
    parameters.set_for_test("prio_mgr", "CAP_RUNNING_GROUP_CORES", 2.0, app="pandaserver")
    group = await analysis(rows, "alice", running=3, activated=2, working_group="higgs")
    own = await analysis(rows, "alice", running=3, activated=2)
    await look(rows, UserCaps(parameters))
    assert await states(rows, group) == {"running": 3, "throttled": 2}
    assert await states(rows, own) == {"running": 3, "activated": 2}


async def test_accounts_are_counted_once_for_all_slices(
    rows: Rows, parameters: Parameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = await analysis(rows, "alice", running=11, activated=20)
    caps = UserCaps(parameters, size=3)
    counted = []
    decisions = caps._decisions

    async def counting(work: UnitOfWork) -> object:
        counted.append(1)
        return await decisions(work)

    monkeypatch.setattr(caps, "_decisions", counting)
    assert await look(rows, caps) == 7
    assert len(counted) == 1 and await states(rows, busy) == {"running": 11, "throttled": 20}


async def test_jobs_of_a_task_that_is_being_paused_are_not_let_go_on(rows: Rows, parameters: Parameters) -> None:
    """The pause has not committed yet: its task is left to the next look, when it is seen."""
    paused = await analysis(rows, "alice", running=0, activated=0, throttled=5)
    caps = UserCaps(parameters)
    async with rows.database.pool.acquire() as other, other.transaction():
        await other.execute("SET LOCAL session_replication_role = replica")
        await other.execute("UPDATE tasks SET status = 'paused' WHERE task_id = $1", paused)
        assert await look(rows, caps) == 1
    assert await states(rows, paused) == {"throttled": 5}
    assert await look(rows, caps) == 1
    assert await states(rows, paused) == {"throttled": 5}


async def test_waiting_jobs_of_who_ran_less_are_raised_toward_1000(rows: Rows) -> None:
    much = await analysis(rows, "alice", running=30, activated=3)
    little = await analysis(rows, "bob", running=5, activated=3)
    group = await analysis(rows, "carol", running=0, activated=2, working_group="higgs")
    production = await analysis(rows, "bob", running=0, activated=3, task_type="prod", prod_source_label="managed")
    await set_user(rows, "bob", quota=1.0)
    await balance(rows, Balancing(Reordering()))
    async with rows.database.read() as connection:
        found = await connection.fetch(
            "SELECT task_id, min(current_priority) AS low, max(current_priority) AS high FROM jobs"
            " WHERE status = 'activated' GROUP BY task_id"
        )
    raised = {row["task_id"]: (row["low"], row["high"]) for row in found}
    assert raised == {much: (100, 100), little: (1000, 1000), group: (1000, 1000), production: (100, 100)}
    assert sum(len(event["lane_jobs"]) for event in await rows.events("jobs.reordered.v1")) == 5
    await balance(rows, Balancing(Reordering()))
    assert len(await rows.events("jobs.reordered.v1")) == 2, "a second look finds nothing to raise"


async def test_a_cap_said_of_a_user_for_one_vo_holds_there_alone(rows: Rows, parameters: Parameters) -> None:
    of_atlas = await analysis(rows, "ada", running=3, activated=2, vo="atlas")
    of_cms = await analysis(rows, "ada", running=3, activated=2, vo="cms")
    await set_user(rows, "ada", cap_running_jobs=2, vo="atlas")
    await look(rows, UserCaps(parameters))
    assert await states(rows, of_atlas) == {"running": 3, "throttled": 2}
    assert await states(rows, of_cms) == {"running": 3, "activated": 2}


async def test_what_is_raised_goes_up_in_slices_and_whoever_was_changed_meanwhile_stays(rows: Rows) -> None:
    await analysis(rows, "ada", running=100, activated=1)
    little = await analysis(rows, "bob", running=0, activated=7)
    balancing = Balancing(Reordering(), size=3)
    for _ in range(2):  # whom to raise, and the first slice
        async with rows.database.begin(reason="priority-balance") as work:
            assert await balancing.look(work)
    async with rows.database.read() as connection:
        changed = await connection.fetchval("SELECT max(job_id) FROM jobs WHERE task_id = $1", little)
        await connection.execute("UPDATE jobs SET current_priority = 500 WHERE job_id = $1", changed)
    assert await balance(rows, balancing) == 2
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT current_priority FROM jobs WHERE task_id = $1", little)
    assert Counter(row["current_priority"] for row in found) == {1000: 6, 500: 1}
    assert [len(event["job_ids"]) for event in await rows.events("jobs.reordered.v1")] == [3, 3]


async def test_a_slice_that_can_never_be_raised_stops_no_other(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is to blame: one that only the database failed is raised by the next look."""
    await analysis(rows, "ada", running=100, activated=1)
    little = await analysis(rows, "bob", running=0, activated=7)
    reordering = Reordering()
    errors: list[Exception] = [ConnectionError("lost"), ValueError("cannot be raised")]
    raise_jobs = reordering.raise_jobs

    async def fails_twice(work: UnitOfWork, priorities: Mapping[int, int], by: int) -> None:
        if errors:
            raise errors.pop(0)
        await raise_jobs(work, priorities, by)

    monkeypatch.setattr(reordering, "raise_jobs", fails_twice)
    balancing = Balancing(reordering, size=3)
    async with rows.database.begin(reason="priority-balance") as work:
        assert await balancing.look(work)
    for error in (ConnectionError, ValueError):
        with pytest.raises(error):
            async with rows.database.begin(reason="priority-balance") as work:
                await balancing.look(work)
    await balance(rows, balancing)
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT current_priority FROM jobs WHERE task_id = $1", little)
    assert Counter(row["current_priority"] for row in found) == {1000: 4, 100: 3}
