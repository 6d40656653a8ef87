"""Priority and share of waiting jobs change: slice by slice, with news, and only for who may; on a real database."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from services.job_dispatch.app import Parts
from services.job_dispatch.lifecycle.reordering import Reordering
from shared.auth import Authority
from shared.events import JobsReordered, TaskCommanded
from tests.handlers.job_dispatch.calls import acquire
from tests.handlers.job_dispatch.conftest import client
from tests.handlers.job_dispatch.grid_of_jobs import Rows


async def task_has(rows: Rows, **columns: Any) -> None:
    async with rows.database.pool.acquire() as connection:
        for column, value in columns.items():
            await connection.execute(f"UPDATE tasks SET {column} = $1 WHERE task_id = 1", value)


async def command(rows: Rows, parts: Parts, verb: str) -> None:
    async with rows.database.begin(reason="test") as work:
        await parts.handlers.on_task_commanded(TaskCommanded(task_id=1, command=verb, status="running"), work)


async def orders(rows: Rows) -> dict[int, tuple[str, int]]:
    async with rows.database.read() as connection:
        found = await connection.fetch("SELECT job_id, gshare, current_priority FROM jobs ORDER BY job_id")
    return {row["job_id"]: (row["gshare"], row["current_priority"]) for row in found}


async def under_way(rows: Rows) -> int:
    async with rows.database.read() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM job_order_changes"))


async def tell(rows: Rows, parts: Parts) -> None:
    for event in await rows.events("jobs.reordered.v1"):
        await parts.news.on_jobs_reordered(JobsReordered.model_validate(event))


async def test_all_waiting_jobs_follow_and_those_with_pilots_stay(rows: Rows, parts: Parts) -> None:
    [waits], [held], [scout], [merge], [runs] = [
        await rows.jobs(1, **one)
        for one in (
            {},
            {"status": "throttled"},
            {"job_type": "scout", "priority": 901},
            {"job_type": "merge", "priority": 5000},
            {"status": "running"},
        )
    ]
    await task_has(rows, current_priority=700, gshare="Data")
    await command(rows, parts, "change_priority")
    assert await orders(rows) == {
        waits: ("MC", 700), held: ("MC", 700), scout: ("MC", 901), merge: ("MC", 5000), runs: ("MC", 100),
    }  # fmt: skip
    await command(rows, parts, "change_share")
    assert {gshare for gshare, _ in (await orders(rows)).values()} == {"Data", "MC"}
    assert (await orders(rows))[runs] == ("MC", 100)
    assert await under_way(rows) == 0


async def test_many_jobs_follow_in_slices_and_a_repeated_command_changes_nothing_more(rows: Rows, parts: Parts) -> None:
    ids = await rows.jobs(25, specs=False)
    await task_has(rows, current_priority=700)
    slices = Reordering(size=10)
    async with rows.database.begin(reason="test") as work:
        await slices.begin(work, 1, "change_priority")
    assert sum(priority == 700 for _, priority in (await orders(rows)).values()) == 10
    assert await under_way(rows) == 1
    n_changed = []
    while True:
        async with rows.database.begin(reason="test") as work:
            done = await slices.slice(work)
        if done is None:
            break
        n_changed.append(done)
    assert n_changed == [10, 5] and await under_way(rows) == 0
    await command(rows, parts, "change_priority")
    told = [one for event in await rows.events("jobs.reordered.v1") for one in event["job_ids"]]
    assert sorted(told) == ids, "each is told once"


async def test_a_job_that_another_transaction_holds_is_taken_by_a_later_slice(rows: Rows, parts: Parts) -> None:
    [job_id] = await rows.jobs(1)
    await task_has(rows, current_priority=700)
    async with rows.database.pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM jobs WHERE job_id = $1 FOR UPDATE", job_id)
        await command(rows, parts, "change_priority")
        assert (await orders(rows))[job_id] == ("MC", 100) and await under_way(rows) == 1
    async with rows.database.begin(reason="test") as work:
        assert await Reordering().slice(work) == 1
    assert (await orders(rows))[job_id] == ("MC", 700) and await under_way(rows) == 0


async def test_a_raised_job_is_handed_out_next_by_a_window_that_was_open_before(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient, authority: Authority
) -> None:
    ids = await rows.jobs(5)
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == ids[0]
    async with client(parts, authority, "prod", "production") as producer:
        reply = (await producer.post("/api/v1/job/change_priority", json={"job_id": ids[4], "priority": 900})).json()
    assert reply["success"], reply
    await tell(rows, parts)
    assert [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(3)] == [ids[4], ids[1], ids[2]]


async def test_a_window_without_the_news_does_not_hand_a_lowered_job_out_by_its_old_priority(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    ids = await rows.jobs(3)
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == ids[0]
    async with rows.database.begin(reason="test") as work:
        assert await Reordering().set_priorities(work, {ids[1]: 5}) == [ids[1]]
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == ids[2], "the entry of before loses its claim"
    parts.windows._lost[ids[1]] = 0.0
    async with rows.database.read() as connection:
        assert await parts.windows.recheck_lost(connection) == 1
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == ids[1]


async def test_a_change_of_share_moves_jobs_behind_or_before_those_of_others(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    mine = await rows.jobs(2, gshare="MC")
    await rows.task(2)
    [other] = await rows.jobs(1, gshare="Data", task_id=2)
    assert (await acquire(pilot))["jobs"][0]["PandaID"] == other, "shares without a tree are served by name"
    await task_has(rows, gshare="Analysis")
    [other] = await rows.jobs(1, gshare="Data", task_id=2)
    await command(rows, parts, "change_share")
    await tell(rows, parts)
    assert [(await acquire(pilot))["jobs"][0]["PandaID"] for _ in range(2)] == mine


@pytest.mark.parametrize(
    ("name", "roles", "priority", "letters", "status", "code"),
    [
        ("alice", ["user"], 1000, "", "activated", None),
        ("alice", ["user"], 1001, "", "activated", 3),
        ("alice", ["user"], 1500, "s", "activated", None),
        ("alice", ["user"], 1500, "g", "activated", 3),
        ("bob", ["user"], 10, "s", "activated", 3),
        ("prod", ["production"], 6000, "", "activated", None),
        ("prod", ["production"], 500, "", "running", 4),
    ],
)
async def test_who_may_give_a_job_which_priority(
    rows: Rows, parts: Parts, authority: Authority, name: str, roles: list[str], priority: int, letters: str,
    status: str, code: int | None,
) -> None:  # fmt: skip
    [job_id] = await rows.jobs(1, status=status)
    async with rows.database.pool.acquire() as connection:
        await connection.execute("INSERT INTO users (user_name, grid_pref) VALUES ('alice', $1)", letters)
    async with client(parts, authority, name, *roles) as caller:
        reply = (await caller.post("/api/v1/job/change_priority", json={"job_id": job_id, "priority": priority})).json()
    assert (reply["success"], reply["data"] if code else None) == (code is None, code)
    assert (await orders(rows))[job_id][1] == (priority if code is None else 100)


async def test_the_pilot_is_told_the_share_and_priority_that_its_job_has_now(
    rows: Rows, parts: Parts, pilot: httpx.AsyncClient
) -> None:
    (job_id,) = await rows.jobs(1)
    made = {"PandaID": job_id, "currentPriority": 100, "gshare": "MC"}
    async with rows.database.pool.acquire() as connection:
        await connection.execute("UPDATE job_specs SET spec = $1", made)
    await task_has(rows, current_priority=700, gshare="Data")
    await command(rows, parts, "change_priority")
    await command(rows, parts, "change_share")
    for _ in range(2):  # the second time for a repeated request
        [told] = (await acquire(pilot, key="one"))["jobs"]  # type: ignore[misc]
        assert (told["PandaID"], told["currentPriority"], told["gshare"]) == (job_id, 700, "Data")


async def test_time_out_rules_are_asked_at_once_where_a_change_of_priority_meets_another_rule(
    rows: Rows, parts: Parts
) -> None:
    async with rows.database.begin(reason="test") as work:
        data = {"states": ["activated"], "since": "state change", "limit_h": 1, "next_state": "closed",
                "error_code": 1, "source": "test", "when": {"least_priority": 900}}  # fmt: skip
        await work.connection.execute(
            "INSERT INTO timeout_rules (rule, vo, place, data) VALUES ('urgent', 'atlas', 1, $1)", data
        )
    [job] = await rows.jobs(1, priority=850)

    async def asked_early(priority: int) -> bool:
        async with rows.database.begin(reason="test") as work:
            await work.connection.execute("UPDATE jobs SET deadline_at = orrery_now() + interval '1 day'")
            assert await Reordering().set_priorities(work, {job: priority}) == [job]
            return bool(
                await work.connection.fetchval("SELECT deadline_at <= orrery_now() FROM jobs WHERE job_id = $1", job)
            )

    assert [await asked_early(one) for one in (899, 950, 960, 899, 800, 799)] == [False, True, False, True, False, True]
