"""Actions: each has its turn, says what it found and did, and can be run by hand, also without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from services.watchdog.acting import FEWEST, SLICE_S, SliceTime
from services.watchdog.app import build
from shared.auth import Authority
from shared.runtime.service import Context, Periodic, Service
from tests import rows
from tests.applications import application_of
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import HOUR, seasoned


@pytest.fixture
def service(stage: Stage, context: Context) -> Service:
    """The watchdog with the clock of the test."""
    return build(replace(context, database=stage.database, metrics=stage.metrics))


@pytest.fixture
async def client(service: Service, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    token = authority.issue("olga", ["operator"])
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application_of(service, authority)),
        base_url="http://watchdog",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        yield client


def named(service: Service, name: str) -> Periodic:
    return next(one for one in service.periodic if one.name == name)


async def two_jobs(stage: Stage, connection: asyncpg.Connection) -> list[int]:
    """One that is overdue, and one that may go on."""
    task = await rows.task(connection)
    due = await rows.job(connection, task, status="sent", state_change_time=START - HOUR)
    other = await rows.job(connection, task, status="sent", state_change_time=START)
    await seasoned(stage)
    return [due, other]


async def run(client: httpx.AsyncClient, name: str, **values: object) -> dict[str, Any]:
    answer: dict[str, Any] = (await client.post("/api/v1/watchdog/run", json={"action": name, **values})).json()
    return answer


async def test_a_turn_counts_what_was_found_and_done_and_how_late_it_was(
    stage: Stage, connection: asyncpg.Connection, service: Service
) -> None:
    await two_jobs(stage, connection)
    stage.clock.forward(seconds=30)
    async with stage.database.begin(reason="periodic") as work:
        assert await named(service, "jobs").run(work) is False
    counted = {
        name: stage.metrics.get_sample_value(f"orrery_watchdog_{name}", {"action": "jobs"})
        for name in ("found_total", "done_total", "late_seconds", "period_seconds", "last_run_timestamp_seconds")
    }
    assert counted == {
        "found_total": 2, "done_total": 2, "late_seconds": 30, "period_seconds": 60,
        "last_run_timestamp_seconds": stage.clock.now.timestamp(),
    }  # fmt: skip
    assert stage.metrics.get_sample_value("orrery_watchdog_seconds_count", {"action": "jobs"}) == 1


async def test_each_action_has_a_lease_and_a_loop_of_its_own(service: Service) -> None:
    names = [one.name for one in service.periodic if one.name != "parameters"]
    assert names == [
        "jobs", "overloaded-queues", "tasks", "attempts", "withheld", "queue-filler", "nearly-done", "deadlines",
        "sweep", "sweep", "retention",
    ]  # fmt: skip
    assert [one.partition for one in service.periodic if one.name == "sweep"] == ["tasks", "work"]
    assert all(one.lease for one in service.periodic if one.name != "parameters")


async def test_the_list_says_when_each_had_its_turn_and_what_it_did_last(
    stage: Stage, connection: asyncpg.Connection, service: Service, client: httpx.AsyncClient
) -> None:
    due, _ = await two_jobs(stage, connection)
    async with stage.database.begin(reason="periodic") as work:
        await named(service, "jobs").run(work)
    told = {one["action"]: one for one in (await client.get("/api/v1/watchdog/list")).json()["data"]}
    assert set(told) == {
        "jobs", "overloaded_queues", "tasks", "attempts", "withheld", "queue_filler", "nearly_done", "deadlines",
        "sweep", "retention",
    }  # fmt: skip
    assert told["jobs"]["period_s"] == 60 and told["jobs"]["n_done"] == 2
    (did,) = told["jobs"]["did"]
    assert (did["event"], did["job_ids"]) == ("JobsExpired", [due]) and "sent for more than" in did["reason"]
    assert told["overloaded_queues"]["last_run_at"] is None and told["overloaded_queues"]["did"] == []


async def test_a_dry_run_tells_what_a_run_would_do_and_changes_nothing(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient
) -> None:
    due, _ = await two_jobs(stage, connection)
    before = await connection.fetch("SELECT * FROM watch_runs ORDER BY watch")
    dry = await run(client, "jobs", dry_run=True)
    assert dry["success"] and [one["job_ids"] for one in dry["data"]["did"]] == [[due]]
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", due) == "sent"
    assert await stage.announced() == [] and await connection.fetch("SELECT * FROM watch_runs ORDER BY watch") == before
    wet = await run(client, "jobs")
    assert wet["data"]["did"] == dry["data"]["did"] and wet["data"]["n_done"] == dry["data"]["n_would_do"] == 2
    assert dry["data"]["n_done"] == 0, "a dry run did nothing"
    assert await stage.value("SELECT status FROM jobs WHERE job_id = $1", due) == "failed"
    assert await stage.value("SELECT target FROM audit_log WHERE verb = 'watchdog run'") == "watchdog jobs"


async def test_a_dry_run_holds_the_jobs_of_one_slice_and_no_longer_than_that(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.watchdog.expiring.SLICE", 2)
    task = await rows.task(connection)
    due = [await rows.job(connection, task, status="sent", state_change_time=START - HOUR) for _ in range(5)]
    await seasoned(stage)
    dry = (await run(client, "jobs", dry_run=True))["data"]
    assert [one["job_ids"] for one in dry["did"]] == [due[:2]] and dry["n_slices"] == 1 and dry["more"]
    wet = (await run(client, "jobs"))["data"]
    assert [one["job_ids"] for one in wet["did"]] == [due[:2], due[2:4], due[4:]] and not wet["more"]


async def test_a_dry_run_of_the_sweep_has_every_kind_once(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient
) -> None:
    old = START - timedelta(seconds=90)
    tasks = [await rows.task(connection, status=status, state_change_time=old) for status in ("registered", "prepared")]
    dry = (await run(client, "sweep", dry_run=True))["data"]
    assert [one["task_id"] for one in dry["did"]] == tasks and not dry["more"]
    assert await stage.value("SELECT count(*) FROM sweep_marks") == 0


async def test_an_action_that_is_not_due_is_run_when_it_is_asked_for(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient
) -> None:
    await stage.sweep()
    stage.clock.forward(seconds=5)
    old = stage.clock.now - timedelta(seconds=90)
    task = await rows.task(connection, status="registered", state_change_time=old)
    assert await stage.sweep() == [], "its period is not over"
    found = await run(client, "sweep")
    assert found["data"]["did"] == [{"event": "TaskRegistered", "task_id": task}]


async def test_an_unknown_action_is_refused_with_those_that_there_are(client: httpx.AsyncClient) -> None:
    answer = await run(client, "swep")
    (problem,) = answer["problems"]
    assert problem["field"] == "action" and problem["value"] == "'swep'" and "sweep" in problem["allowed"]


async def test_every_action_can_be_run_dry(stage: Stage, service: Service, client: httpx.AsyncClient) -> None:
    for one in (await client.get("/api/v1/watchdog/list")).json()["data"]:
        assert (await run(client, one["action"], dry_run=True))["success"], one["action"]


async def test_partitions_of_an_action_have_turns_of_their_own_and_are_run_together_by_hand(
    stage: Stage, connection: asyncpg.Connection, service: Service, client: httpx.AsyncClient
) -> None:
    old = START - timedelta(seconds=90)
    task = await rows.task(connection, status="registered", state_change_time=old)
    job = await rows.job(connection, task, status="holding", state_change_time=old)
    of_work = next(one for one in service.periodic if one.partition == "work")
    async with stage.database.begin(reason="periodic") as work:
        await of_work.run(work)
    told = {
        one["partition"]: one for one in (await client.get("/api/v1/watchdog/list")).json()["data"]
        if one["action"] == "sweep"
    }  # fmt: skip
    assert told["tasks"]["last_run_at"] is None and told["work"]["last_run_at"] is not None
    assert stage.metrics.get_sample_value("orrery_watchdog_done_total", {"action": "sweep/work"}) == 1
    found = (await run(client, "sweep"))["data"]
    assert found["did"] == [{"event": "TaskRegistered", "task_id": task}] and found["n_done"] == 1
    assert await stage.value("SELECT array_agg(entity_id) FROM sweep_marks WHERE kind = 'holding_jobs'") == [job]


async def test_a_slice_ends_by_the_clock_of_its_transaction(stage: Stage) -> None:
    """In a simulation that is the simulated one, so that a seed cuts its slices where it did before."""
    async with stage.database.begin(reason="test") as work:
        slice_time = SliceTime.of(work)
        await asyncio.sleep(SLICE_S + 0.05)
        assert not slice_time.is_over
        stage.clock.forward(seconds=SLICE_S + 0.01)
        assert slice_time.is_over and slice_time.ends_after(FEWEST) and not slice_time.ends_after(FEWEST - 1)
