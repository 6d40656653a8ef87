"""Production of a VO gets the world without names, quotas and parameters of people of others, and with all numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from services.cli.dry_run.world_of_file import usage_of
from services.job_brokerage.app import build
from shared.auth import Authority
from shared.db import Database
from shared.model.world_file import parse_world
from shared.runtime.service import Context
from tests import rows
from tests.applications import application_of
from tests.handlers.grids import load_grid

Asked = Callable[..., Any]


@pytest.fixture
async def world_for(context: Context, database: Database, authority: Authority) -> Asked:
    """The world as somebody gets it; ada and carl have a task of atlas, bob one of cms; chief submitted one as dan."""
    await load_grid(database)
    async with database.read() as connection:
        await rows.task(connection, user_name="dan", vo="atlas", status="running", submitted_by="chief")
        await rows.insert(connection, "users", {"user_name": "dan", "disk_quota_gb": 7.0})
        for name, vo, status in (("ada", "atlas", "running"), ("carl", "atlas", "done"), ("bob", "cms", "ready")):
            await rows.task(
                connection, user_name=name, submitted_by=name, vo=vo, status=status, working_group=f"group-of-{vo}"
            )
            await rows.insert(connection, "users", {"user_name": name, "disk_quota_gb": 7.0})
            counted = {"queue": "Q_ALPHA", "resource_type": "SCORE", "gshare": "MC", "status": "running"}
            await rows.insert(
                connection, "queue_statistics", {**counted, "user_name": name, "vo": vo, "n_jobs": 5, "n_cores": 10}
            )
            correction = {"vo": vo, "user_group": f"group-of-{vo}", "user_name": name, "correction_factor": 0.5}
            await rows.insert(connection, "group_corrections", correction)
        for component, key, vo, value in (
            ("job_dispatch", "PILOT_SECRETS", "", '{"*": "bob"}'),
            ("order", "TASK_QUEUES", "cms", "within"),
            ("order", "TASK_QUEUES", "atlas", "within"),
            ("plugin", "KEY", "", "bob"),
        ):
            await rows.insert(
                connection, "parameters", {"component": component, "key": key, "vo": vo, "value": value, "type": "str"}
            )
        await rows.job(connection, await connection.fetchval("SELECT min(task_id) FROM tasks"), status="running")
    web = application_of(build(context), authority)

    async def asked(name: str, role: str, *groups: str) -> Any:
        headers = {"Authorization": f"Bearer {authority.issue(name, [role], groups)}"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(web), base_url="http://broker", headers=headers
        ) as client:
            return (await client.get("/api/v1/grid/world")).json()

    return asked


async def test_production_gets_people_of_its_vo_and_numbers_of_all(world_for: Asked) -> None:
    answer = await world_for("chief", "production", "atlas")
    world, text = answer["data"], str(answer)
    assert "bob" not in text and "cms" not in text
    assert world["user_usage"] == {"ada": {"disk_quota_gb": 7.0, "disk_used_gb": None}}
    counted = {(one["user_name"], one["vo"]): (one["n_jobs"], one["n_cores"]) for one in world["statistics"]}
    assert counted == {("ada", "atlas"): (5, 10), ("", "atlas"): (5, 10), ("", "*"): (5, 10)}
    assert [one["user_name"] for one in world["group_corrections"]] == ["ada", "carl"]
    assert [(one["key"], one["vo"]) for one in world["parameters"]] == [("TASK_QUEUES", "atlas")]
    assert world["share_usage"] == {"MC": 30.0} and len(world["queues"]) > 1
    parse_world(world)


async def test_operators_and_production_of_every_vo_get_everything(world_for: Asked) -> None:
    whole = (await world_for("olga", "operator"))["data"]
    assert set(whole["user_usage"]) == {"ada", "bob", "carl", "dan"} and len(whole["parameters"]) == 4
    every = (await world_for("chief", "production"))["data"]
    assert every["statistics"] == whole["statistics"] and set(every["user_usage"]) == {*whole["user_usage"]}


async def test_outcomes_of_tasks_of_other_vos_are_told_together_and_groups_by_vo(
    world_for: Asked, database: Database
) -> None:
    async with database.read() as connection:
        tasks = {}
        for vo in ("atlas", "cms"):
            tasks[vo] = await rows.task(connection, user_name="x", vo=vo, status="running", working_group="higgs")
            await rows.job(connection, tasks[vo], status="running")
            for task_id in (tasks[vo], tasks[vo] + 1000):
                counted = {"hour": datetime.now(UTC).replace(minute=0, second=0, microsecond=0), "queue": "Q_ALPHA"}
                await rows.insert(
                    connection, "queue_outcomes", {**counted, "gshare": "MC", "task_id": task_id, "n_finished": 3}
                )
    world = (await world_for("chief", "production", "cms"))["data"]
    told = [(one["task_id"], one["n_finished"]) for one in world["history"]["outcomes"]]
    assert sorted(told) == [(0, 9), (tasks["cms"], 3)]
    groups = [(one["working_group"], one["vo"], one["running_jobs"]) for one in world["group_usage_of_vos"]]
    assert ("higgs", "cms", 1) in groups and not [one for one in groups if one[1] == "atlas"]
    usage = usage_of(parse_world(world), ())
    assert usage.own(task_id=1, user_name="x", working_group="higgs", vo="cms").group.running_jobs == 1
    assert usage.own(task_id=1, user_name="x", working_group="higgs", vo="atlas").group.running_jobs == 0


async def test_whoever_is_no_production_gets_no_world(world_for: Asked) -> None:
    for role in ("user", "pilot"):
        assert (await world_for("ada", role, "atlas"))["success"] is False
