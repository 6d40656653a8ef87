"""Kinds of work of a task, which operators may ask for: `task/get_details` with include_kinds."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.tasks.store import reads
from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.test_api import get
from tests.handlers.task_definition.world import production
from tests.rows import ARCHIVE, insert, job


async def test_details_tell_the_kinds_of_work_where_operators_ask_for_them(
    database: Database,
    service: Service,
    producer: httpx.AsyncClient,
    user: httpx.AsyncClient,
    operator: httpx.AsyncClient,
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        await job(connection, task_id, job_type="build", status="finished")
        failed = await job(connection, task_id, job_type="jumbo", status="failed")
        await connection.execute(f"{ARCHIVE} WHERE job_id = $1", await job(connection, task_id, status="closed"))
        [dataset_id, file_id] = await connection.fetchrow(
            "SELECT dataset_id, file_id FROM task_files WHERE task_id = $1 LIMIT 1", task_id
        )
        for number, (status, is_jumbo) in enumerate([(9, True), (9, False), (7, False)]):
            values = {"task_id": task_id, "dataset_id": dataset_id, "file_id": file_id, "job_process_id": number}
            events = {"def_min_event_id": number, "def_max_event_id": number, "attempt_nr": 10}
            await insert(connection, "event_ranges", {**values, **events, "status": status, "is_jumbo": is_jumbo})
        decision = {"job_id": failed, "task_id": task_id, "rule_id": 1, "action": "increase_memory"}
        await insert(connection, "retry_decisions", {**decision, "is_active": True, "reason": "r"})
    details = (await get(operator, "task/get_details", task_id=task_id, include_kinds="True"))["data"]
    found = {name: details[name] for name in ("event_ranges", "event_ranges_of_jumbo_jobs", "retry_actions")}
    assert details["job_types"]["build"] == {"finished": 1} and details["job_types"]["jumbo"] == {"failed": 1}
    assert details["job_types"]["normal"]["closed"] >= 1
    assert found == {
        "event_ranges": {"merged": 2, "failed": 1}, "event_ranges_of_jumbo_jobs": {"merged": 1, "failed": 0},
        "retry_actions": {"increase_memory": 1},
    }  # fmt: skip
    assert details["kinds_are_complete"] is True
    assert "job_types" not in (await get(operator, "task/get_details", task_id=task_id))["data"]
    for client in (producer, user):
        refused = await get(client, "task/get_details", task_id=task_id, include_kinds="True")
        assert (refused["success"], refused["data"]) == (False, 3) and "allowed: operators" in refused["message"]


async def test_kinds_of_work_are_counted_up_to_a_bound_and_the_answer_says_so(
    database: Database, task_id: int, operator: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "MOST_COUNTED", 3)
    async with database.read() as connection:
        for told in ((2, True), (3, False)):
            job_id = await job(connection, task_id, status="finished")
            await connection.execute(f"{ARCHIVE} WHERE job_id = $1", job_id)
            await connection.execute("DELETE FROM jobs WHERE job_id = $1", job_id)
            await job(connection, task_id, status="running")
            details = (await get(operator, "task/get_details", task_id=task_id, include_kinds="True"))["data"]
            counted = sum(sum(by_status.values()) for by_status in details["job_types"].values())
            assert (counted, details["kinds_are_complete"]) == told
