"""Jobs that are claimed together: one row of the log, and the history of each."""

from __future__ import annotations

import asyncio

from services.job_dispatch.app import Parts
from services.job_dispatch.policy.fitting import Offer, PilotKind
from services.task_definition.tasks.store.explanations import SQL as EXPLANATIONS
from tests.handlers.job_dispatch.grid_of_jobs import Rows

OFFER = Offer("Q1", PilotKind())


async def test_jobs_claimed_together_are_one_row_of_the_log_and_each_has_its_history(rows: Rows, parts: Parts) -> None:
    await rows.task(2)
    ids = [*await rows.jobs(2), *await rows.jobs(1, task_id=2)]
    await parts.windows.open("Q1")
    granted = await asyncio.gather(*(parts.claims.acquire(OFFER) for _ in ids))
    assert sorted(one.job_id for one in granted if one is not None) == ids
    async with rows.database.read() as connection:
        (logged,) = await connection.fetch("SELECT * FROM transition_log WHERE entity = 'job'")
        assert (logged["entity_id"], logged["entity_ids"], logged["task_id"]) == (None, ids, None)
        for job_id in ids:
            history = await EXPLANATIONS.rows(connection, "history_of_job", job_id=job_id, at_most=10)
            assert [(row["from_status"], row["to_status"]) for row in history] == [("activated", "sent")]


async def test_the_history_of_a_job_is_found_by_indexes_in_every_partition_of_the_log(rows: Rows) -> None:
    async with rows.database.read() as connection, connection.transaction():
        await connection.execute("SET LOCAL enable_seqscan = off")
        plan = await connection.fetch(f"EXPLAIN {EXPLANATIONS.text('history_of_job')}", 7, 10)
    text = "\n".join(row[0] for row in plan)
    assert "entity_ids_idx" in text and "entity_entity_id_at_idx" in text and "Seq Scan" not in text, text
