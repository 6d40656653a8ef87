"""Rules are told to everybody, those that a VO added to its members; operators add them, and they end its jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from services.watchdog.app import build
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Context
from shared.timeouts.built_in import RULES
from tests import rows
from tests.applications import application_of
from tests.handlers.watchdog.conftest import START, Stage
from tests.handlers.watchdog.test_job_watch import HOUR, seasoned

PATH = "/api/v1/timeout"
RULE: dict[str, Any] = {
    "name": "impatient", "states": ["activated"], "limit_h": 12, "source": "operations of 1 March",
    "when": {"labels": ["managed"], "least_priority": 500},
}  # fmt: skip


@pytest.fixture
async def client(context: Context, authority: Authority) -> AsyncIterator[httpx.AsyncClient]:
    web = application_of(build(context), authority)
    headers = {"Authorization": f"Bearer {authority.issue('olga', ['operator'])}"}
    transport = httpx.ASGITransport(app=web)
    async with httpx.AsyncClient(transport=transport, base_url="http://watchdog", headers=headers) as client:
        yield client


async def load(client: httpx.AsyncClient, *rules: dict[str, Any], vo: str = "demo") -> dict[str, Any]:
    return (await client.post(f"{PATH}/load", json={"vo": vo, "rules": list(rules)})).json()


async def test_everybody_reads_the_rules_with_limit_parameter_and_source_and_operators_alone_add_some(
    client: httpx.AsyncClient, authority: Authority
) -> None:
    user = {"Authorization": f"Bearer {authority.issue('ulla', ['user'])}"}
    told = (await client.get(f"{PATH}/list", headers=user)).json()["data"]
    assert [one["name"] for one in told] == [rule.name for rule in RULES]
    found = {one["name"]: one for one in told}
    assert found["transferring_high"]["condition"] == "priority >= 800" and found["holding_high"]["limit"] == "3 h"
    assert found["holding"]["parameter"] == "job_timeout.TIMEOUT_holding"
    assert found["heartbeat"]["limit"] == "2 h" and "HEARTBEAT_TIMEOUT" in found["heartbeat"]["parameter"]
    assert found["transferring"]["limit"] == "transtimelo of the queue days"
    assert (await client.post(f"{PATH}/load", json={"vo": "demo", "rules": []}, headers=user)).status_code == 403


async def test_a_set_is_put_as_a_whole_or_refused_by_the_names_of_its_rules_and_the_old_one_stays(
    client: httpx.AsyncClient, database: Database
) -> None:
    assert (await load(client, RULE))["success"]
    wrong = {**RULE, "name": "worse", "states": ["queued"]}
    answer = await load(client, {**RULE, "name": "other"}, wrong)
    assert not answer["success"] and [one["field"] for one in answer["problems"]] == ["rules.worse.states"]
    listed = (await client.get(f"{PATH}/list")).json()["data"]
    assert (listed[0]["name"], listed[0]["vo"], listed[0]["limit"]) == ("impatient", "demo", "12 h")
    assert not (await load(client, RULE, vo="other"))["success"], "the name is taken"
    assert (await load(client, {**RULE, "name": "theirs"}, vo="other"))["success"]
    assert (await load(client))["success"]
    assert [one["vo"] for one in (await client.get(f"{PATH}/list")).json()["data"]][:2] == ["other", None]
    async with database.read() as connection:
        verbs = await connection.fetch("SELECT target, outcome FROM audit_log WHERE verb = 'timeout load'")
    assert [tuple(row) for row in verbs] == [
        ("time-out rules of demo", "accepted"),
        ("time-out rules of other", "accepted"),
        ("time-out rules of demo", "accepted"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"limit_h": "soon"}, {"states": "activated"}, {"when": {"weather": "bad"}}, {"source": ""}, {"name": "a b"}],
)
async def test_rubbish_is_refused(client: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    answer = await load(client, {**RULE, **wrong})
    assert not answer["success"] and answer["problems"]


async def test_an_added_rule_ends_jobs_of_its_vo_just_after_its_limit(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient
) -> None:
    assert (await load(client, RULE))["success"]
    task, others = await rows.task(connection), await rows.task(connection, vo="other")
    since = {"state_change_time": START - 12 * HOUR, "creation_time": START - 12 * HOUR, "current_priority": 500}
    due = await rows.job(connection, task, **since)
    await rows.job(connection, others, **since)
    await rows.job(connection, task, **{**since, "current_priority": 499})
    await rows.job(connection, task, **since, prod_source_label="user")
    await stage.set("ANALY_TIMEOUT", 0.0, component="rebroker", app="pandaserver")
    await seasoned(stage)
    assert await stage.run(stage.expiring.watch_jobs) == []
    stage.clock.now = START + timedelta(seconds=301)
    (event,) = await stage.run(stage.expiring.watch_jobs)
    assert event.job_ids == (due,) and "12 h" in event.reason and "priority >= 500" in event.reason


async def test_rules_that_a_vo_added_are_told_to_its_members_and_to_operators_alone(
    client: httpx.AsyncClient, authority: Authority
) -> None:
    for vo in ("atlas", "cms"):
        assert (await load(client, {**RULE, "name": f"of_{vo}"}, vo=vo))["success"]
    usual = [rule.name for rule in RULES]
    for groups, added in ((["atlas"], ["of_atlas"]), (["cms"], ["of_cms"]), (["lhcb"], [])):
        member = {"Authorization": f"Bearer {authority.issue('ulla', ['user'], groups)}"}
        told = (await client.get(f"{PATH}/list", headers=member)).json()["data"]
        assert [one["name"] for one in told] == [*added, *usual]
    told = (await client.get(f"{PATH}/list")).json()["data"]
    assert [one["name"] for one in told] == ["of_atlas", "of_cms", *usual]


@pytest.mark.parametrize("unknown", ['{"when": {"weather": "bad"}}', '{"weather": "bad"}', '{"next_state": "merging"}'])
async def test_a_rule_that_cannot_be_read_puts_its_set_aside_and_all_others_are_asked(
    stage: Stage, connection: asyncpg.Connection, client: httpx.AsyncClient, unknown: str
) -> None:
    assert (await load(client, RULE, {**RULE, "name": "newer", "states": ["assigned"], "limit_h": 6}))["success"]
    assert (await load(client, {**RULE, "name": "theirs"}, vo="other"))["success"]
    await connection.execute("UPDATE timeout_rules SET data = data || $1 WHERE rule = 'newer'", json.loads(unknown))
    task, others = await rows.task(connection), await rows.task(connection, vo="other")
    since = {"state_change_time": START - 14 * HOUR, "creation_time": START - 14 * HOUR, "current_priority": 500}
    await rows.job(connection, task, **since)
    theirs = await rows.job(connection, others, **since)
    usual = await rows.job(connection, task, **{**since, "state_change_time": START - 49 * HOUR})
    await seasoned(stage)
    events = await stage.run(stage.expiring.watch_jobs)
    assert sorted(job_id for event in events for job_id in event.job_ids) == sorted([theirs, usual])
    assert stage.metrics.get_sample_value("skipped_total", {"vo": "demo"}) == 1
    assert (await client.get(f"{PATH}/list")).json()["data"][0]["name"] == "theirs"
    assert (await load(client, RULE))["success"], "the set is mended by loading it again"
