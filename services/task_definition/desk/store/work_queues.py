"""Work queues in PostgreSQL, and the tasks that criteria match."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from services.task_definition.desk.policy.work_queues import RESOURCE, WorkQueue
from shared.db.queries import Queries

SQL = Queries.beside(__file__)


async def work_queues(connection: asyncpg.Connection) -> tuple[WorkQueue, ...]:
    """All of them, in the order in which they are asked."""
    return tuple(WorkQueue(**dict(row)) for row in await SQL.rows(connection, "work_queues"))


async def tasks_of_work_queues(connection: asyncpg.Connection) -> dict[int, int]:
    """How many live tasks each has."""
    return {row["work_queue_id"]: row["n_tasks"] for row in await SQL.rows(connection, "tasks_of_work_queues")}


async def replace_work_queues(connection: asyncpg.Connection, queues: Sequence[WorkQueue]) -> None:
    """Put these in the place of all others; those that tasks have had stay, inactive."""
    ids = [one.queue_id for one in queues]
    await SQL.run(connection, "forget_orders")
    await SQL.run(connection, "forget_work_queues", queue_ids=ids)
    await SQL.run(connection, "retire_work_queues", queue_ids=ids)
    await SQL.run(
        connection,
        "put_work_queues",
        queue_ids=ids,
        names=[one.name for one in queues],
        labels=[one.label for one in queues],
        vos=[one.vo for one in queues],
        shares=[one.share for one in queues],
        orders=[one.order for one in queues],
        criteria=[one.criteria for one in queues],
        variables=[one.variables for one in queues],
        partition_ids=[one.partition_id for one in queues],
        stretchables=[one.stretchable for one in queues],
        throttleds=[one.throttled for one in queues],
        statuses=[one.status for one in queues],
        functions=[one.function for one in queues],
    )


async def matching_tasks(connection: asyncpg.Connection, queue: WorkQueue) -> int:
    """Live tasks that the queue's label, VO and criteria match, whichever queue comes first."""
    values: list[str | int] = []
    condition = "true"
    if queue.condition is not None:
        condition, values = queue.condition.sql(len(SQL.parameters("matching_tasks")) + 1)
    if queue.function == RESOURCE:
        condition = f"({condition}) AND NOT orrery_is_analysis(task_type, prod_source_label)"
    text = SQL.text("matching_tasks").removesuffix("true") + f"({condition})"
    places = {"label": queue.label, "vo": queue.vo}
    known = [places[name] for name in SQL.parameters("matching_tasks")]
    return int(await connection.fetchval(text, *known, *values))
