"""A task goes to one queue for a while, as another service asks, and explain tells of it."""

from __future__ import annotations

import httpx

from shared.db import Database
from shared.events import TaskSiteRequested
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.handlers.task_definition.steps import define, put, task_row
from tests.handlers.task_definition.world import production


async def test_where_a_task_may_go_changes_only_from_what_was_meant(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    await put(database, task_id, "running", nucleus="ALPHA")
    ask = {"task_id": task_id, "requested_by": "watchdog", "reason": "it is empty"}
    for site, was, becomes in (
        ("Q2", "Q9", None), ("Q1", "", "Q1"), ("Q2", "", "Q1"), ("", "Q2", "Q1"), ("", "Q1", None),
    ):  # fmt: skip
        assert await deliver(database, service, TaskSiteRequested(site=site, was=was, **ask)) == ()
        assert (await task_row(database, task_id))["site"] == becomes
    found = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    assert "queue any -> queue Q1 by test: it is empty" in found["text"]
    await put(database, task_id, "done")
    await deliver(database, service, TaskSiteRequested(site="Q1", was="", **ask))
    assert (await task_row(database, task_id))["site"] is None
