"""What the tests do again and again: submit, define, look at rows, put a task where a story begins."""

from __future__ import annotations

from typing import Any

import httpx

from services.task_definition.tasks.policy.explaining import latest_first
from shared.db import Database
from shared.events import Event, TaskRegistered
from shared.runtime.service import Service
from tests.handlers.events import deliver
from tests.rows import change


async def submit(client: httpx.AsyncClient, parameters: dict[str, Any], **more: Any) -> int:
    """Submit a task that must be accepted; its id."""
    reply = (await client.post("/api/v1/task/submit", json={"task_parameters": parameters, **more})).json()
    assert reply["success"], reply
    assert f"jediTaskID={reply['data']}" in reply["message"]
    return int(reply["data"])


async def define(
    database: Database, service: Service, client: httpx.AsyncClient, parameters: dict[str, Any], **more: Any
) -> tuple[int, list[Event]]:
    """Submit and refine; the id and what was announced."""
    task_id = await submit(client, parameters, **more)
    return task_id, list(await deliver(database, service, TaskRegistered(task_id=task_id)))


async def task_row(database: Database, task_id: int) -> Any:
    async with database.read() as connection:
        return await connection.fetchrow("SELECT * FROM tasks WHERE task_id = $1", task_id)


async def rows_of(database: Database, statement: str, *arguments: Any) -> list[Any]:
    async with database.read() as connection:
        return await connection.fetch(statement, *arguments)


async def value_of(database: Database, statement: str, *arguments: Any) -> Any:
    async with database.read() as connection:
        return await connection.fetchval(statement, *arguments)


async def path(database: Database, entity: str, entity_id: int) -> list[tuple[str | None, str]]:
    """The moves of a task or dataset, the first one first; those of one transaction have the same time."""
    log = (
        "SELECT at, from_status, to_status FROM transition_log WHERE entity = $1 AND $2 = ANY(entity_ids || entity_id)"
    )
    moves = latest_first([dict(row) for row in await rows_of(database, log, entity, entity_id)])
    return [(one["from_status"], one["to_status"]) for one in reversed(moves)]


async def put(database: Database, task_id: int, status: str, **columns: Any) -> None:
    """Place a task in any state, behind the triggers."""
    names = ", ".join(f"{name} = ${place}" for place, name in enumerate(["status", *columns], start=2))
    async with database.read() as connection:
        await change(connection, f"UPDATE tasks SET {names} WHERE task_id = $1", task_id, status, *columns.values())


async def end_files(database: Database, task_id: int, *, finished: int, failed: int = 0) -> None:
    """The first units of a task's input end like this, counters with them."""
    async with database.read() as connection:
        ids = [
            row["file_id"]
            for row in await connection.fetch(
                "SELECT file_id FROM task_files WHERE task_id = $1 AND status = 'ready'"
                " AND type IN ('input', 'pseudo_input') ORDER BY file_id LIMIT $2",
                task_id,
                finished + failed,
            )
        ]
        for status, chosen in (("finished", ids[:finished]), ("failed", ids[finished:])):
            await change(
                connection,
                "UPDATE task_files SET status = $2::text,"
                " attempt_nr = CASE WHEN $2::text = 'failed' THEN max_attempt ELSE 1 END"
                " WHERE file_id = ANY($1::bigint[])",
                chosen,
                status,
            )
        await change(
            connection,
            "UPDATE task_datasets d SET n_files_used = c.used, n_files_finished = c.finished,"
            " n_files_failed = c.failed, n_events_used = c.events, n_files_to_be_used = n_files"
            " FROM (SELECT dataset_id, count(*) FILTER (WHERE status IN ('finished', 'failed')) AS used,"
            "       count(*) FILTER (WHERE status = 'finished') AS finished,"
            "       count(*) FILTER (WHERE status = 'failed') AS failed,"
            "       coalesce(sum(n_events) FILTER (WHERE status IN ('finished', 'failed')), 0) AS events"
            "       FROM task_files WHERE task_id = $1 AND type IN ('input', 'pseudo_input') GROUP BY dataset_id) c"
            " WHERE c.dataset_id = d.dataset_id",
            task_id,
        )
