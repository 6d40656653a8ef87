"""Production tasks near their end get priority 900 and the share Express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from services.task_definition.tasks.policy.hastening import express_share, is_near_its_end
from services.task_definition.tasks.policy.shares import ShareNode
from services.watchdog.checking.run import run_checks
from shared.db import Database
from shared.events import Event, TaskCommanded, TaskOrderRequested, TaskProgressed, TaskSiteRequested
from shared.runtime.service import Service
from shared.task.in_effect import rules_of
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, end_files, put, task_row
from tests.handlers.task_definition.world import analysis, production
from tests.rows import insert, log


@pytest.mark.parametrize(
    ("status", "n_files", "n_ended", "live_jobs", "rule", "near"),
    [
        ("running", 1000, 950, 3, {}, True),
        ("running", 1000, 949, 3, {}, False),  # 94.9 %
        ("running", 1000, 1000, 0, {}, False),  # nothing is left
        ("running", 2000, 1901, 3, {}, True),  # 99 files, 99 jobs
        ("running", 2000, 1900, 3, {}, False),  # 100 jobs
        ("running", 2000, 1900, 3, {"nFilesPerJob": 2}, True),  # 50 jobs
        ("running", 2000, 1900, 100, {"nFilesPerJob": 2}, False),  # 100 jobs live
        ("scouting", 1000, 950, 3, {}, False),
        ("running", 0, 0, 0, {}, False),
    ],
)
def test_a_task_with_95_percent_of_its_files_done_and_few_jobs_left_is_near_its_end(
    status: Any, n_files: int, n_ended: int, live_jobs: int, rule: dict[str, Any], near: bool
) -> None:
    assert is_near_its_end(status, n_files, n_ended, live_jobs, rules_of(rule)) is near


def test_express_is_a_leaf_that_takes_tasks_of_the_vo() -> None:
    inner = (ShareNode("Express"), ShareNode("E", "Express"))
    assert express_share((ShareNode("MC"), ShareNode("Express")), "demo") == "Express"
    assert express_share(inner, "demo") is None and express_share((), "demo") is None
    for vo, found in (("demo", "Express"), ("other", None)):
        assert express_share((ShareNode("Express", None, {"vo": "demo"}),), vo) == found


async def shares(database: Database, *names: str) -> None:
    async with database.pool.acquire() as connection:
        for position, name in enumerate(names):
            await insert(connection, "shares", {"gshare": name, "value": 50, "position": position})


async def progressed(database: Database, service: Service, task_id: int, n_finished: int = 97) -> Sequence[Event]:
    event = TaskProgressed(
        task_id=task_id, status="running", files_finished=n_finished, files_failed=1, files_total=100, live_jobs=2
    )
    return await deliver(database, service, event)


async def raised(database: Database, task_id: int) -> tuple[int, int, str]:
    row = await task_row(database, task_id)
    return row["current_priority"], row["task_priority"], row["gshare"]


async def test_a_task_near_its_end_is_raised_once_with_its_waiting_jobs_and_a_retry_takes_it_back(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await shares(database, "MC", "Express")
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running", nucleus="ALPHA")
    assert await progressed(database, service, task_id, 93) == ()
    assert await raised(database, task_id) == (500, 500, "MC")
    assert list(await progressed(database, service, task_id)) == [
        TaskCommanded(task_id=task_id, command=command, status="running")
        for command in ("change_priority", "change_share")
    ]
    assert await raised(database, task_id) == (900, 500, "Express")
    assert await progressed(database, service, task_id) == ()
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert (
        "priority 500, share MC -> priority 900, share Express by test: near its end: 98 of 100 files are "
        "worked on (from 95 % on), 2 jobs live (fewer than 100 are left)"
    ) in found["text"]
    async with database.read() as connection:
        assert [one for one in await run_checks(connection) if one.entity == "order"] == []
    await end_files(database, task_id, finished=17, failed=3)
    await put(database, task_id, "finished")
    assert (await producer.post("/api/v1/task/retry", json={"task_id": task_id})).json()["success"]
    assert await raised(database, task_id) == (500, 500, "MC")


async def test_without_a_share_express_the_priority_alone_is_raised_and_a_higher_one_stays(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await shares(database, "MC")
    task_id, _ = await define(database, service, producer, production(taskPriority=950))
    await put(database, task_id, "running")
    assert await progressed(database, service, task_id) == ()
    assert await raised(database, task_id) == (950, 950, "MC")
    task_id, _ = await define(database, service, producer, production("low"))
    await put(database, task_id, "running")
    [told] = await progressed(database, service, task_id)
    assert told.command == "change_priority" and await raised(database, task_id) == (900, 500, "MC")


async def test_analysis_and_children_of_parents_that_work_are_not_hurried(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    of_user, _ = await define(database, service, user, analysis())
    parent, _ = await define(database, service, producer, production("parent"))
    child, _ = await define(database, service, producer, production("child"), parent_tid=parent)
    for one in (of_user, parent, child):
        await put(database, one, "running")
    assert [await progressed(database, service, one) for one in (of_user, child)] == [(), ()]
    await put(database, parent, "finished")
    [told] = await progressed(database, service, child)
    assert told.task_id == child


async def test_what_another_service_asks_for_is_done_told_and_only_raises(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await shares(database, "MC", "Express Analysis")
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running", nucleus="ALPHA")
    ask = {"task_id": task_id, "reason": "class S: 9 of 10 files", "requested_by": "watchdog"}
    share = TaskOrderRequested(gshare="Express Analysis", max_walltime_h=1, **ask)
    told = await deliver(database, service, share)
    assert list(told) == [TaskCommanded(task_id=task_id, command="change_share", status="running")]
    assert (await task_row(database, task_id))["split_rule"]["maxWalltime"] == 1
    assert await raised(database, task_id) == (500, 500, "Express Analysis")
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert ("priority 500, share MC -> priority 500, share Express Analysis by test: class S: 9 of 10 files") in found[
        "text"
    ]
    for wrong in ({"gshare": "Nowhere"}, {"priority": 499}, {"priority": 500}):
        assert await deliver(database, service, TaskOrderRequested(**wrong, **ask)) == ()
    (higher,) = await deliver(database, service, TaskOrderRequested(priority=501, **ask))
    assert isinstance(higher, TaskCommanded) and higher.command == "change_priority"
    assert await raised(database, task_id) == (501, 500, "Express Analysis")
    await put(database, task_id, "done")
    assert await deliver(database, service, TaskOrderRequested(priority=900, **ask)) == ()


async def test_why_a_task_goes_before_others_or_to_one_queue_is_told_however_long_its_history_is(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    await shares(database, "MC", "Express")
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running", nucleus="ALPHA", site=None)
    by = {"task_id": task_id, "requested_by": "watchdog"}
    express, site = "class S: 900 of 1000 files finished, 100 jobs left", "preassigned to Q1, which is nearly empty"
    await deliver(database, service, TaskOrderRequested(gshare="Express", reason=express, **by))
    await deliver(database, service, TaskSiteRequested(site="Q1", was="", reason=site, **by))
    async with database.read() as connection:
        for _ in range(30):
            await log(connection, task_id, "task", to_status="running", from_status="pending", entity_id=task_id)
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    told = [line.strip() for line in found["text"].splitlines() if ", since " in line]
    assert [(one.partition(", since ")[0], one.rpartition(" UTC: ")[2]) for one in told] == [
        ("priority 500, share Express", express),
        ("queue Q1", site),
    ]
    await deliver(database, service, TaskSiteRequested(site="", was="Q1", reason="the queue is busy", **by))
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert "queue any, since " in found["text"] and ": the queue is busy" in found["text"]
