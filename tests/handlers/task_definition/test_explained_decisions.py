from __future__ import annotations

import httpx

from shared.db import Database
from shared.runtime.service import Service
from tests.handlers.task_definition.steps import define
from tests.handlers.task_definition.world import production
from tests.rows import insert, job

DECISION = {
    "plugin": "production", "seed": 1, "world_version": 1, "outcome": "chosen",
    "summary": {"considered": 1, "passed": 1},
    "codes": [0], "found": [0.0], "wanted": [0.0], "weights": [1.0], "checks": {},
}  # fmt: skip


async def test_a_task_shows_why_it_got_its_nucleus_however_often_its_chunks_were_decided_since(
    database: Database, service: Service, producer: httpx.AsyncClient
) -> None:
    task_id, _ = await define(database, service, producer, production())
    async with database.read() as connection:
        for nucleus in ("BETA", "ALPHA"):
            about = {"kind": "task", "task_id": task_id, "chosen": [nucleus], "names": [nucleus]}
            await insert(connection, "brokerage_decisions", {**DECISION, **about})
        for chunk_id in range(1, 11):
            about = {"kind": "job", "task_id": task_id, "chunk_id": chunk_id, "chosen": ["Q"], "names": ["Q"]}
            await insert(connection, "brokerage_decisions", {**DECISION, **about})
        await job(connection, task_id, job_id=9, chunk_id=2, queue="Q")
    data = (await producer.get("/api/v1/explain/task", params={"task_id": task_id})).json()["data"]
    shown = [(one["kind"], one["chunk_id"], one["chosen"]) for one in data["decisions"]]
    assert shown == [
        *(("job", number, ["Q"]) for number in (10, 9, 8)),
        ("task", None, ["ALPHA"]),
        ("task", None, ["BETA"]),
    ]
    assert "1 nuclei, 1 passed" in data["text"] and "chosen: ALPHA" in data["text"]
    of_job = (await producer.get("/api/v1/explain/job", params={"job_id": 9})).json()["data"]
    assert [one["chunk_id"] for one in of_job["decisions"]] == [2]
