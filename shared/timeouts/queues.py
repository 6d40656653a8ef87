"""What time-out rules are told of the queues of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import asyncpg

from shared.config.parameters import Parameters
from shared.db.queries import Queries
from shared.model.grid import Grid
from shared.model.queue import Queue, stored_queue
from shared.model.storage import Storage
from shared.timeouts.built_in import ABSENT_QUEUE_H
from shared.timeouts.rule import WatchedQueue

SQL = Queries.beside(__file__)


async def queue_facts(
    connection: asyncpg.Connection, grid: Grid, parameters: Parameters, only: str | None = None
) -> dict[str, WatchedQueue]:
    """Read the facts of every queue, or of one alone.

    One that left the grid is as it was until it is back, or has been away for so long that it is known to be gone.
    """
    rows = await SQL.rows(connection, "last_starts", queue=only)
    started = {row["queue"]: row["last_job_start_at"] for row in rows}
    found = {
        name: replace(_facts(queue, started.get(name)), blacklisted=blacklisted_storage(queue, grid.storages))
        for name, queue in grid.queues.items()
        if only in (None, name)
    }
    for row in await SQL.rows(connection, "absent_queues", queue=only, kept_h=parameters.read(ABSENT_QUEUE_H)):
        queue = stored_queue(row["queue"], row["data"])
        if row["queue"] not in grid.queues and queue is not None:
            was = _facts(queue, started.get(row["queue"]))
            found[row["queue"]] = replace(was, absent_since=row["absent_since"])
    return found


def blacklisted_storage(queue: Queue, storages: Mapping[str, Storage]) -> str:
    """The storage without which analysis cannot work at a queue, if it is blacklisted or down; else "".

    It is the one that its output goes to, as brokerage takes it, or all that it reads.
    """
    output = queue.output_storage(analysis=True)
    if output is not None and output in storages and not storages[output].works("write_lan"):
        return output
    read = [name for name in queue.storages("read", analysis=True) if name in storages]
    return read[0] if read and not any(storages[name].works("read_lan") for name in read) else ""


def _facts(queue: Queue, last_job_start_at: datetime | None) -> WatchedQueue:
    return WatchedQueue(
        status=queue.status.value,
        workflow=queue.workflow,
        disable_reassign=queue.has("disableReassign"),
        last_job_start_at=last_job_start_at,
        transfer_time_high_days=queue.transfer_time_high_days,
        transfer_time_low_days=queue.transfer_time_low_days,
    )
