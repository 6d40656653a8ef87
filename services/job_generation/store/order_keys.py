"""Order keys of jobs: what their order depends on, one row for all jobs that agree in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.order.identity import SETS, TaskQueueIdentity

SQL = Queries.beside(__file__)

#: a task queue, and the user priority of its jobs
OrderFacts = tuple[TaskQueueIdentity, int]


async def intern(work: UnitOfWork, wanted: Collection[OrderFacts]) -> Mapping[OrderFacts, int]:
    """The ids of these order keys, made where they are new.

    Nothing is remembered: an empty task queue is deleted after a while. One that was used within a minute is not
    touched, so that transactions for one task queue do not wait for each other.
    """
    if not wanted:
        return {}
    queues = {queue.digest: queue for queue, _ in wanted}
    ordered = [queues[digest] for digest in sorted(queues)]
    digests = [one.digest for one in ordered]
    await SQL.run(work.connection, "use_task_queues", identities=digests)
    await SQL.run(
        work.connection,
        "add_task_queues",
        identities=digests,
        vos=[one.vo for one in ordered],
        user_names=[one.user_name for one in ordered],
        user_groups=[one.user_group for one in ordered],
        cpu_segments_s=[one.cpu_segment_s for one in ordered],
        sets=[{name: getattr(one, name) for name in SETS} for one in ordered],
    )
    keys = sorted({(queue.digest, user_priority) for queue, user_priority in wanted})
    columns: dict[str, Any] = {"identities": [one for one, _ in keys], "user_priorities": [one for _, one in keys]}
    await SQL.run(work.connection, "add_order_keys", **columns)
    rows = await SQL.rows(work.connection, "order_keys_of", **columns)
    return {(queues[row["identity"]], row["user_priority"]): row["order_key_id"] for row in rows}
