"""Why a task waits that has a pre-processing job before its definition."""

from __future__ import annotations

from typing import Any

import httpx

from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.steps import define, put
from tests.handlers.task_definition.test_explained_decisions import DECISION, HELD
from tests.handlers.task_definition.world import production
from tests.rows import change, insert, job

SPEC = {"jobParameters": "--find ${TASKID}", "transPath": "find.sh", "prodSourceLabel": "panda"}


async def begun(database: Database, service: Service, producer: httpx.AsyncClient) -> int:
    task_id, _ = await define(database, service, producer, production("found", preproSpec=SPEC, nucleus="ALPHA"))
    return task_id


async def explained(producer: httpx.AsyncClient, task_id: int) -> str:
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    return str(data["text"])


async def a_chunk(database: Database, task_id: int, decision: dict[str, Any]) -> None:
    """The chunk of the pre-processing job, and what brokerage decided about it."""
    async with database.read() as connection:
        row = {"chunk_id": 1, "task_id": task_id, "kind": "preprocess", "status": "returned", "n_files": 1}
        await insert(connection, "chunks", row)
        about = {"kind": "job", "task_id": task_id, "chunk_id": 1, "chosen": [], "names": ["Q"]}
        await insert(connection, "brokerage_decisions", {**DECISION, **about, **decision})


async def test_before_its_job_is_made_a_task_says_that_one_is_about_to_be_generated(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    text = await explained(producer, task_id)
    assert (
        text.startswith(f"task {task_id} ") and ": topreprocess, a pre-processing job is about to be generated" in text
    )


async def test_a_task_whose_pre_processing_job_finds_no_queue_names_the_nearest_miss_of_its_chunk(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await a_chunk(database, task_id, HELD)
    text = await explained(producer, task_id)
    assert "for preprocess chunk 1 " in text and "queued 21 jobs, wanted: at most 20 jobs" in text


async def test_a_task_whose_pre_processing_job_the_site_does_not_take_says_so_and_when_it_is_looked_at(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    reason = "its pre-processing job waits: ALPHA takes no more jobs"
    async with database.read() as connection:
        waits = {"task_id": task_id, "outcome": "unplaceable", "reason": reason, "numbers": {}}
        await insert(connection, "generation_decisions", waits)
        await change(connection, "UPDATE tasks SET retry_at = '2026-01-02 03:04:05+00' WHERE task_id = $1", task_id)
    text = await explained(producer, task_id)
    assert reason in text and "will be looked at again at 2026-01-02 03:04:05 UTC" in text


async def test_while_its_job_runs_a_task_says_that_it_waits_for_that_job(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id = await begun(database, service, producer)
    await put(database, task_id, "preprocessing")
    async with database.read() as connection:
        await job(connection, task_id, job_id=9, chunk_id=1, queue="Q", status="running", job_type="preprocess")
    text = await explained(producer, task_id)
    assert ": preprocessing, the pre-processing job runs" in text and "jobs: 1 running" in text
