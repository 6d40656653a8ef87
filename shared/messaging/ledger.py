"""The tables behind the bus: deferred and parked messages.

Every function runs in its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import asyncpg

from shared.events.base import Event
from shared.messaging.subscription import Deferred, Delivery
from shared.states import TASK
from shared.states.task import FINAL

LONGEST_DIALOG = 2000


@dataclass(frozen=True)
class QueueCount:
    """Messages that wait in the queue of a consumer, and replicas that take from it."""

    consumer: str
    n_waiting: int
    n_consumers: int


_NOTE_QUEUES = """
INSERT INTO bus_queues AS q (consumer, n_waiting, n_consumers, waiting_since, looked_at)
SELECT c.consumer, c.n_waiting, c.n_consumers, CASE WHEN c.n_waiting > 0 THEN orrery_now() END, orrery_now()
  FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS c (consumer, n_waiting, n_consumers) ORDER BY c.consumer
ON CONFLICT (consumer) DO UPDATE
SET n_waiting = excluded.n_waiting, n_consumers = excluded.n_consumers, looked_at = excluded.looked_at,
    waiting_since = CASE WHEN excluded.n_waiting > 0 THEN coalesce(q.waiting_since, excluded.waiting_since) END
"""

_DEFER = """
INSERT INTO deferred_messages (event_id, consumer, routing_key, body, reason, attempts, waits, retry_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, orrery_now() + make_interval(secs => $8))
ON CONFLICT (consumer, event_id) DO UPDATE
SET reason = excluded.reason, attempts = excluded.attempts, waits = excluded.waits, retry_at = excluded.retry_at
"""

# While a due message is being tried it is put off by a while, so that no other replica takes it too; the inbox would
# catch that anyway.
_CLAIM_DUE = """
UPDATE deferred_messages SET retry_at = orrery_now() + make_interval(secs => $3)
WHERE deferred_id IN (
    SELECT deferred_id FROM deferred_messages
    WHERE retry_at <= orrery_now() AND consumer = ANY($1)
    ORDER BY retry_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
RETURNING event_id, consumer, routing_key, body, attempts, waits
"""

_DELETE_DEFERRED = "DELETE FROM deferred_messages WHERE consumer = $1 AND event_id = $2"

# The same event may be parked twice for a consumer when an acknowledgement was lost: one open row is enough.
_PARK = """
INSERT INTO parked_messages (event_id, consumer, routing_key, body, reason, task_id)
SELECT $1, $2, $3, $4, $5, $6
WHERE $1::bigint IS NULL OR NOT EXISTS (
    SELECT 1 FROM parked_messages
    WHERE event_id = $1 AND consumer = $2 AND body = $4 AND replayed_at IS NULL
)
RETURNING parked_id
"""

_HOLD_TASK = """
UPDATE tasks
SET old_status = status, status = 'pending', error_dialog = $2, retry_at = NULL,
    state_change_time = orrery_now(), modification_time = orrery_now()
WHERE task_id = $1 AND status = ANY($3)
"""

_CONCERNED = """
WITH concerned AS (
    SELECT unnest($3::bigint[]) AS task_id
    UNION SELECT task_id FROM jobs WHERE job_id = ANY($4)
    UNION SELECT task_id FROM archived_jobs($4)
    UNION SELECT j.task_id FROM transfers t JOIN jobs j USING (job_id) WHERE t.transfer_id = ANY($5)
), listed AS (
    SELECT coalesce(array_agg(task_id ORDER BY task_id), '{}') AS task_ids FROM concerned
), deferred AS (
    UPDATE deferred_messages SET task_ids = l.task_ids FROM listed l WHERE consumer = $1 AND event_id = $2
), parked AS (
    UPDATE parked_messages SET task_ids = l.task_ids FROM listed l
    WHERE consumer = $1 AND event_id = $2 AND replayed_at IS NULL
)
SELECT task_ids FROM listed
"""

# What has ended keeps what it ended with; a row that somebody holds is not waited for.
_NOTE_ERROR = """
UPDATE tasks SET error_dialog = $2, modification_time = orrery_now()
WHERE task_id IN (SELECT task_id FROM tasks WHERE task_id = ANY($1) AND status <> ALL($3) FOR UPDATE SKIP LOCKED)
"""

# A replayed message becomes a deferred one that is due: only the consumer that failed gets it again.
_REPLAY = """
WITH chosen AS (
    UPDATE parked_messages SET replayed_at = orrery_now(), replayed_by = $2
    WHERE parked_id = ANY($1) AND replayed_at IS NULL AND event_id IS NOT NULL
    RETURNING parked_id, event_id, consumer, routing_key, body
), queued AS (
    INSERT INTO deferred_messages (event_id, consumer, routing_key, body, reason, attempts, retry_at)
    SELECT event_id, consumer, routing_key, body, 'replayed', 0, orrery_now() FROM chosen
    ON CONFLICT (consumer, event_id) DO UPDATE SET attempts = 0, waits = 0, retry_at = excluded.retry_at
)
SELECT parked_id FROM chosen ORDER BY parked_id
"""

_DROP = """
DELETE FROM parked_messages WHERE parked_id = ANY($1) AND replayed_at IS NULL
RETURNING parked_id, event_id, consumer, routing_key, task_ids, left(reason, 500) AS reason
"""

_OPEN = """
SELECT parked_id, event_id, consumer, routing_key, body, reason, task_id, parked_at
FROM parked_messages WHERE replayed_at IS NULL ORDER BY parked_id DESC LIMIT $1
"""

HOLDABLE = sorted(
    {t.source for t in TASK.transitions if t.target == "pending" and t.trigger == "temporary problem" and t.source}
)
"""The states that a temporary problem may take a task out of."""


@dataclass(frozen=True)
class Parked:
    parked_id: int
    event_id: int | None
    consumer: str
    routing_key: str
    body: str
    reason: str
    task_id: int | None
    parked_at: datetime


def as_text(body: bytes) -> str:
    """Any bytes as text that PostgreSQL accepts (no NUL), cut at 100 000 characters."""
    return body[:100_000].decode("utf-8", errors="backslashreplace").replace("\x00", "\\x00")


async def defer(
    connection: asyncpg.Connection,
    delivery: Delivery,
    event_id: int,
    *,
    reason: str,
    attempts: int,
    after_s: float,
    waits: int = 0,
) -> None:
    """Keep the event for another try in `after_s` seconds; `waits` counts the tries that never began."""
    body = delivery.body.decode()
    await connection.execute(
        _DEFER, event_id, delivery.consumer, delivery.routing_key, body, reason, attempts, waits, float(after_s)
    )


async def claim_due(
    connection: asyncpg.Connection, consumers: Sequence[str], *, limit: int, busy_s: float
) -> list[Delivery]:
    """Deferred messages whose time has come; no other replica gets them for `busy_s` seconds."""
    rows = await connection.fetch(_CLAIM_DUE, list(consumers), limit, float(busy_s))
    return [
        Delivery(
            r["consumer"], r["routing_key"], r["body"].encode(), Deferred(r["event_id"], r["attempts"], r["waits"])
        )
        for r in rows
    ]


async def forget_deferred(connection: asyncpg.Connection, consumer: str, event_id: int) -> None:
    await connection.execute(_DELETE_DEFERRED, consumer, event_id)


async def park(
    connection: asyncpg.Connection,
    *,
    consumer: str,
    routing_key: str,
    body: bytes,
    reason: str,
    event_id: int | None = None,
    task_id: int | None = None,
) -> int | None:
    """Put a message aside with its reason; its number, or None if it was parked already."""
    parked_id: int | None = await connection.fetchval(
        _PARK, event_id, consumer, routing_key, as_text(body), reason, task_id
    )
    return parked_id


async def hold_task(connection: asyncpg.Connection, task_id: int, reason: str) -> None:
    """Set a task pending with `reason` if it is in a state that can wait; its old status is kept."""
    await connection.execute(_HOLD_TASK, task_id, reason, HOLDABLE)


async def name_tasks(connection: asyncpg.Connection, consumer: str, event: Event) -> list[int]:
    """Write down the tasks of a deferred or parked message, by their ids or those of jobs and transfers."""

    def ids(*names: str) -> list[int]:
        return [one for name in names for one in getattr(event, name, ())]

    task_id = getattr(event, "task_id", None)
    found: list[int] = await connection.fetchval(
        _CONCERNED,
        consumer,
        event.event_id,
        [] if task_id is None else [task_id],
        ids("job_ids", "failed_job_ids"),
        ids("transfer_ids"),
    )
    return found


async def note_error(connection: asyncpg.Connection, task_ids: Sequence[int], reason: str) -> None:
    """Show the owners of tasks that have not ended why nothing happens."""
    await connection.execute(_NOTE_ERROR, list(task_ids), reason[:LONGEST_DIALOG], sorted(FINAL))


async def parked(connection: asyncpg.Connection, limit: int = 100) -> list[Parked]:
    """Messages put aside and not replayed since, the newest first."""
    return [Parked(**dict(row)) for row in await connection.fetch(_OPEN, limit)]


async def replay(connection: asyncpg.Connection, ids: Sequence[int], *, by: str) -> list[int]:
    """Send parked messages to their consumers again; the numbers of open ones with an event id."""
    return [row["parked_id"] for row in await connection.fetch(_REPLAY, list(ids), by)]


async def drop(connection: asyncpg.Connection, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Forget parked messages; what those were that were still open."""
    return sorted(map(dict, await connection.fetch(_DROP, list(ids))), key=itemgetter("parked_id"))


async def note_queues(connection: asyncpg.Connection, counts: Sequence[QueueCount]) -> None:
    """Note what waits in queues of the bus, for those who look at the system."""
    consumers, n_waiting, n_consumers = zip(*((one.consumer, one.n_waiting, one.n_consumers) for one in counts),
                                            strict=True)  # fmt: skip
    await connection.execute(_NOTE_QUEUES, consumers, n_waiting, n_consumers)
