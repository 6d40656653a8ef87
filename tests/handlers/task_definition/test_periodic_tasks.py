"""Tasks submitted again every period: when, under what name, until what end; paused, resumed, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from services.task_definition.app import build
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.periodic import next_time
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context, Service
from tests.handlers.events import started
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import rows_of, value_of
from tests.handlers.task_definition.world import an_input, analysis, log, output

START = datetime(2030, 1, 1, tzinfo=UTC)


def series(name: str = "calibration", owner: str = "alice", **changes: Any) -> dict[str, Any]:
    own = {**output("calib"), "dataset": f"user.{owner}.calib.$JEDITASKID"}
    items = [an_input("data.all/"), own]
    return {
        **analysis(name),
        "jobParameters": items,
        "log": {**log("c"), "dataset": f"user.{owner}.log.$JEDITASKID"},
        **changes,
    }


async def submit(client: httpx.AsyncClient, parameters: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {"task_parameters": parameters or series(), "period_s": 3600, **more}
    return (await client.post("/api/v1/periodic_task/submit", json=body)).json()


async def command(client: httpx.AsyncClient, verb: str, periodic_id: int) -> dict[str, Any]:
    return (await client.post(f"/api/v1/periodic_task/{verb}", json={"periodic_id": periodic_id})).json()


async def look(database: Database, service: Service) -> None:
    """What the service does every few seconds."""
    [run] = [one.run for one in service.periodic if one.name == "periodic-tasks"]
    async with database.begin(reason="periodic") as work:
        await run(work)


async def due_now(database: Database) -> None:
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE periodic_tasks SET next_at = orrery_now() - interval '1 minute'")


async def names(database: Database) -> list[str]:
    return [row["task_name"] for row in await rows_of(database, "SELECT task_name FROM tasks ORDER BY task_id")]


async def test_a_task_is_submitted_again_every_period(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    reply = await submit(user)
    assert reply["success"], reply
    assert await names(database) == []
    for _ in range(2):
        await look(database, service)
    assert await names(database) == ["calibration.1"], "the next one is due in an hour"
    await due_now(database)
    await look(database, service)
    assert await names(database) == ["calibration.1", "calibration.2"]
    [row] = (await user.get("/api/v1/periodic_task/list")).json()["data"]
    assert (row["status"], row["n_submitted"], row["period_s"], row["last_error"]) == ("active", 2, 3600, None)
    owners = await rows_of(database, "SELECT user_name, status FROM tasks")
    assert {tuple(one) for one in owners} == {("alice", "registered")}
    audited = await rows_of(database, "SELECT caller FROM audit_log WHERE verb = 'task.submit'")
    assert [one["caller"] for one in audited] == ["alice", "alice"]


async def test_a_paused_series_submits_nothing_and_one_that_ended_is_never_opened_again(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    periodic_id = (await submit(user))["data"]
    for verb, status, made in (("pause", "paused", 0), ("resume", "active", 1), ("end", "ended", 1)):
        assert (await command(user, verb, periodic_id))["success"]
        refused = await command(user, verb, periodic_id)
        assert (
            refused["data"] == rules.IRRELEVANT and f"that is {status}; allowed: " in refused["message"] + "allowed: "
        )
        await due_now(database)
        await look(database, service)
        assert len(await names(database)) == made
        assert await value_of(database, "SELECT status FROM periodic_tasks") == status
    assert (await command(user, "resume", periodic_id))["data"] == rules.IRRELEVANT
    assert (await command(user, "end", 999))["data"] == rules.NOT_FOUND


async def test_a_series_ends_at_its_time(database: Database, service: Service, user: httpx.AsyncClient) -> None:
    ends_at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert (await submit(user, ends_at=ends_at))["success"]
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE periodic_tasks SET ends_at = orrery_now() - interval '1 s'")
    await look(database, service)
    assert await names(database) == []
    assert await value_of(database, "SELECT status FROM periodic_tasks") == "ended"


async def test_a_task_that_is_refused_is_left_out_and_its_series_says_why(
    database: Database, service: Service, user: httpx.AsyncClient
) -> None:
    await submit(user)
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE catalogue.datasets SET name = 'data.other' WHERE name = 'data.all'")
    await look(database, service)
    [row] = (await user.get("/api/v1/periodic_task/list")).json()["data"]
    assert (row["status"], row["n_submitted"], row["n_refused"]) == ("active", 0, 1)
    assert "data.all" in row["last_error"]
    async with database.pool.acquire() as connection:
        await connection.execute("UPDATE catalogue.datasets SET name = 'data.all' WHERE name = 'data.other'")
    await due_now(database)
    await look(database, service)
    [row] = (await user.get("/api/v1/periodic_task/list")).json()["data"]
    assert (row["n_submitted"], row["n_refused"], row["last_error"]) == (1, 0, None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda body: body.update(period_s=5), "period_s"),
        (lambda body: body.update(ends_at="2001-01-01T00:00:00Z"), "ends_at"),
        (lambda body: body["task_parameters"].update(log=log("one")), "log.dataset"),
        (lambda body: body["task_parameters"].update(jobParameters=[an_input("data.all/"), output("x")]),
         "jobParameters.1.dataset"),
        (lambda body: body["task_parameters"].update(taskName="x" * 130), "taskName"),
        (lambda body: body["task_parameters"].update(coreCount="eight"), "coreCount"),
    ],
)  # fmt: skip
async def test_a_series_that_cannot_work_is_refused_with_the_field(
    database: Database, user: httpx.AsyncClient, change: Callable[[dict[str, Any]], None], field: str
) -> None:
    body: dict[str, Any] = {"task_parameters": series(), "period_s": 3600}
    change(body)
    reply = (await user.post("/api/v1/periodic_task/submit", json=body)).json()
    assert not reply["success"] and field in [one["field"] for one in reply["problems"]], reply
    assert await value_of(database, "SELECT count(*) FROM periodic_tasks") == 0


async def test_only_the_owner_or_production_commands_a_series(
    service: Service, authority: Authority, user: httpx.AsyncClient, producer: httpx.AsyncClient
) -> None:
    periodic_id = (await submit(user))["data"]
    async with client_of(service, authority, "bob", "user") as bob:
        told = await command(bob, "end", periodic_id)
        nothing = await command(bob, "end", 999)
        assert (
            told["data"] == rules.NOT_FOUND and told["message"].replace(str(periodic_id), "999") == nothing["message"]
        )
    assert (await command(producer, "pause", periodic_id))["success"]


async def test_two_replicas_submit_one_task_at_a_time(
    database: Database, service: Service, context: Context, user: httpx.AsyncClient
) -> None:
    await submit(user)
    replica = await started(build(replace(context, metrics=CollectorRegistry())))
    await asyncio.gather(*(look(database, one) for one in (service, replica, service, replica)))
    assert await names(database) == ["calibration.1"]


@given(late_s=st.integers(0, 10**7), period_s=st.integers(60, 10**6))
def test_the_next_one_is_due_within_a_period_at_a_whole_number_of_periods(late_s: int, period_s: int) -> None:
    now = START + timedelta(seconds=late_s)
    found = next_time(START, period_s, now)
    assert now < found <= now + timedelta(seconds=period_s)
    assert (found - START).total_seconds() % period_s == 0
