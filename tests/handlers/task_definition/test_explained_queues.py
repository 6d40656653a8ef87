"""Why a queue has what it has: numbers for everybody, tasks for who may read them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest

from services.task_definition.tasks import queue_explaining
from shared.auth import Authority
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.conftest import client_of
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import production
from tests.rows import insert, job

CHECKS = {"610": {"name": "queued", "tier": "capacity", "temporary": True, "found": "queued", "wanted": "at most",
                  "unit": "jobs", "words": [], "parameters": ["jobbroker.NQUEUELIMITSITE"], "lifts": []}}  # fmt: skip
DECISION = {
    "kind": "job", "plugin": "production", "seed": 1, "world_version": 1, "outcome": "chosen", "summary": {},
    "found": [0.0, 21.0], "wanted": [0.0, 20.0], "weights": [1.0, 1.0],
    "checks": CHECKS,
}  # fmt: skip


async def a_queue_name(database: Database) -> str:
    async with database.read() as connection:
        name: str = await connection.fetchval("SELECT queue FROM queues ORDER BY queue LIMIT 1")
        await connection.execute(
            "INSERT INTO resource_types (resource_name, position, min_core, max_core, min_ram_per_core,"
            " max_ram_per_core) VALUES ('SCORE', 99, 1, 1, 0, 2000) ON CONFLICT DO NOTHING"
        )
    return name


async def put(database: Database, task_id: int, queue: str, *decisions: dict[str, Any]) -> None:
    async with database.read() as connection:
        for one in decisions:
            row = {**DECISION, "names": ["OTHER", f"{queue}/SCORE"], "task_id": task_id, **one}
            await insert(connection, "brokerage_decisions", row)


async def test_decisions_about_other_queues_do_not_hide_those_about_this_one(
    database: Database, service: Service, producer: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_explaining, "MOST_DECISIONS", 2)
    task_id, _ = await define(database, service, producer, production())
    queue = await a_queue_name(database)
    await put(database, task_id, queue, *[{"codes": [0, 0], "chosen": [f"{queue}/SCORE"]}] * 2)
    others = {"names": ["OTHER", "THIRD"], "codes": [0, 0], "chosen": ["OTHER"]}
    await put(database, task_id, queue, *[others] * 5)
    found = (await producer.get("/api/v1/explain/queue", params={"queue": queue})).json()["data"]
    assert found["decisions"]["n_decisions"] == 2
    assert "brokerage of the last hour (2 decisions that looked at it, since " in found["text"]


async def test_a_queue_says_how_many_jobs_may_be_queued_there_and_how_many_are(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    queue = await a_queue_name(database)
    async with database.read() as connection:
        for vo, status, n_jobs in (("atlas", "activated", 21), ("atlas", "running", 3), ("cms", "activated", 240)):
            counted = {"gshare": "MC", "user_name": "ada", "status": status, "n_jobs": n_jobs, "n_cores": n_jobs}
            of_vo = {"queue": queue, "resource_type": "SCORE", "vo": vo, **counted}
            await insert(connection, "queue_statistics", of_vo)
    found = (await producer.get("/api/v1/explain/queue", params={"queue": queue})).json()["data"]
    atlas, cms = found["caps"]
    assert atlas == {"resource_type": "SCORE", "vo": "atlas", "n_queued": 21, "n_running": 3, "at_most": 20}
    assert cms == {"resource_type": "SCORE", "vo": "cms", "n_queued": 240, "n_running": 0, "at_most": 20}
    assert "queued SCORE of vo atlas: 21; production is given more below 20 (twice the 3 that run" in found["text"]
    assert "MC SCORE of vo cms: 240 activated" in found["text"]


async def test_a_queue_says_who_is_placed_what_left_it_out_and_why_its_pilots_went(
    database: Database, service: Service, producer: httpx.AsyncClient, operator: httpx.AsyncClient, authority: Authority
) -> None:
    task_id, _ = await define(database, service, producer, production())
    queue = await a_queue_name(database)
    await put(
        database, task_id, queue,
        {"codes": [0, 0], "chosen": [f"{queue}/SCORE"]},
        {"codes": [0, 610], "chosen": ["OTHER"]},
        {"codes": [0, 0], "chosen": ["OTHER"]},
    )  # fmt: skip
    async with database.read() as connection:
        await job(connection, task_id, job_id=9, queue=queue, status="activated")
        await connection.execute(
            "INSERT INTO pilots_without_a_job (queue, why, n_pilots, reason) VALUES ($1, 'share', 7, 'of user ada')",
            queue,
        )
        await connection.execute(
            "INSERT INTO queue_cordons (queue, reason, set_by) VALUES ($1, 'disks are replaced', 'olga')", queue
        )
    found = (await operator.get("/api/v1/explain/queue", params={"queue": queue})).json()["data"]
    decisions, text = found["decisions"], found["text"]
    assert [(one["task_id"], one["n_chunks"]) for one in decisions["placed"]] == [(task_id, 1)]
    assert decisions["not_chosen"] == {"n_chunks": 1, "n_tasks": 1}
    assert "cordoned by olga" in text and "disks are replaced" in text
    assert "left out by queued (capacity, may pass): 1 chunk of 1 task" in text
    assert f"last for task {task_id}: queued 21 jobs, wanted: at most 20 jobs" in text
    assert "governed by jobbroker.NQUEUELIMITSITE" in text and "share: 7 so far" in text and "of user ada" in text
    assert f"task {task_id}" in text and "who waits for pilots there" in text

    # somebody else: the same numbers, and nothing that names the work of others
    async with client_of(service, authority, "bob", "user") as stranger:
        told = (await stranger.get("/api/v1/explain/queue", params={"queue": queue})).json()["data"]
    assert told["decisions"]["placed"] == []
    assert told["decisions"]["placed_of_others"] == {"n_tasks": 1, "n_chunks": 1}
    assert [one["example"] for one in told["decisions"]["refused"]] == [None]
    assert [(one["task_id"], one["task_name"], one["n_jobs"]) for one in told["waiting"]] == [(None, None, 1)]
    assert "reason" not in told["pilots_without_a_job"][0] and "ada" not in told["text"]
    assert "placed: 1 task of others: 1 chunk" in told["text"] and "1 task of others: 1 jobs" in told["text"]
    missing = await operator.get("/api/v1/explain/queue", params={"queue": "NOWHERE"})
    assert missing.json()["success"] is False and "there is no queue NOWHERE" in missing.json()["message"]


async def test_a_site_says_what_its_queues_refused_and_did_in_a_day_and_which_pilots_left(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    queue = await a_queue_name(database)
    await put(database, task_id, queue, {"codes": [0, 610], "chosen": ["OTHER"]})
    async with database.read() as connection:
        site = await connection.fetchval("SELECT site FROM queues WHERE queue = $1", queue)
        hour = await connection.fetchval("SELECT date_trunc('hour', orrery_now())")
        counted = {"queue": queue, "gshare": "MC", "task_id": task_id, "n_started": 5, "n_finished": 2, "n_failed": 1}
        await insert(connection, "queue_outcomes", {**counted, "hour": hour})
        await insert(connection, "queue_outcomes", {**counted, "hour": hour, "gshare": "Test", "n_cancelled": 4})
        await insert(connection, "queue_outcomes", {**counted, "hour": hour - timedelta(hours=30)})
    found = (await producer.get("/api/v1/explain/site", params={"site": site})).json()["data"]
    assert found["site"]["site"] == site and queue in found["queues"]
    [refused] = found["decisions"]["refused"]
    assert (refused["check"], refused["example"]["task_id"]) == ("queued", task_id)
    [one] = found["day"]
    assert (one["n_started"], one["n_finished"], one["n_failed"], one["n_stopped"]) == (10, 4, 2, 4)
    assert found["pilots_without_a_job"] == []
    of_queue = (await producer.get("/api/v1/explain/queue", params={"queue": queue})).json()["data"]
    assert of_queue["day"] == found["day"]
    others = (await user.get("/api/v1/explain/site", params={"site": site})).json()["data"]
    assert others["decisions"]["refused"][0]["example"] is None, "numbers are for everybody, tasks are not"
    nothing = (await producer.get("/api/v1/explain/site", params={"site": "NOWHERE"})).json()
    assert (nothing["success"], nothing["message"]) == (False, "there is no site NOWHERE")


async def test_a_task_is_explained_without_counting_its_jobs_where_nobody_asks_for_that(
    database: Database, service: Service, producer: httpx.AsyncClient, user: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await job(connection, task_id)
    query = {"task_id": task_id}
    whole = (await producer.get("/api/v1/explain/task", params=query)).json()["data"]
    without = (await producer.get("/api/v1/explain/task", params={**query, "counts": "false"})).json()["data"]
    assert whole["jobs"] == {"activated": 1} and len(whole["queues"]) == 1 and whole["text"]
    nothing: dict[str, Any] = {"jobs": {}, "queues": [], "failures": [], "retry_rules": [], "text": ""}
    assert without == whole | nothing
    others = (await user.get("/api/v1/explain/task", params={**query, "counts": "false"})).json()["data"]
    assert others["jobs"] == {} and "withheld" in others["task"]
