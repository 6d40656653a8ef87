"""One transaction: state changes, the events that announce them, and who did it and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import asyncpg

from shared.events.base import Event

_OPEN = """
SELECT set_config('orrery.actor', $1, true),
       set_config('orrery.reason', $2, true),
       set_config('orrery.cause', $3, true),
       orrery_now() AS now
"""

# The same, and the inbox row, in one round trip. event_day comes from the event itself, so that a late duplicate meets
# the row of the first delivery.
_OPEN_WITH_INBOX = """
WITH entered AS (
    INSERT INTO inbox (event_day, consumer, event_id)
    VALUES (($4::timestamptz AT TIME ZONE 'UTC')::date, $5, $6)
    ON CONFLICT DO NOTHING
    RETURNING true
)
SELECT set_config('orrery.actor', $1, true),
       set_config('orrery.reason', $2, true),
       set_config('orrery.cause', $3, true),
       orrery_now() AS now,
       EXISTS (SELECT FROM entered) AS is_first
"""

# In simulations only: orrery_now() reads this setting, so it has to be set by a statement of its own before _OPEN.
_SET_NOW = "SELECT set_config('orrery.now', $1, true)"

_EMIT = """
INSERT INTO outbox (event_id, routing_key, body, producer)
SELECT event_id, routing_key, body, $4
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS new (event_id, routing_key, body)
"""

_LOG_BATCH = """
INSERT INTO transition_log (at, entity, entity_ids, task_id, from_status, to_status, actor, reason, cause_event_id)
VALUES (orrery_now(), $1, $2, $3, $4, $5, $6, $7, $8)
"""

EVENT_ID_SEQUENCE = "event_ids"


@dataclass(frozen=True)
class InboxKey:
    """Which event a consumer handles in a transaction."""

    consumer: str
    event_id: int
    occurred_at: datetime


class UnitOfWork:
    """What a handler writes through. Made by `Database.begin` only."""

    def __init__(self, connection: asyncpg.Connection, *, actor: str) -> None:
        self.connection = connection
        self.actor = actor
        self.now: datetime
        self.is_first = True
        self._cause_event_id: int | None = None
        self._events: list[Event] = []
        self._afterwards: list[Callable[[], None]] = []
        self._wrote_events = False

    async def open(
        self,
        *,
        reason: str,
        cause_event_id: int | None,
        simulated_now: datetime | None,
        inbox: InboxKey | None = None,
    ) -> None:
        """Tell the triggers who acts and why, enter the event into the inbox, and read the transaction's time."""
        self._cause_event_id = cause_event_id
        if simulated_now is not None:
            await self.connection.execute(_SET_NOW, simulated_now.isoformat())
        cause = "" if cause_event_id is None else str(cause_event_id)
        if inbox is None:
            row = await self.connection.fetchrow(_OPEN, self.actor, reason, cause)
        else:
            key = (inbox.occurred_at, inbox.consumer, inbox.event_id)
            row = await self.connection.fetchrow(_OPEN_WITH_INBOX, self.actor, reason, cause, *key)
            self.is_first = bool(row and row["is_first"])
        assert row is not None
        self.now = row["now"]

    def emit(self, event: Event) -> None:
        """Announce a fact. It reaches the outbox just before the commit, and is dropped if there is none."""
        self._events.append(event)

    def after_commit(self, change: Callable[[], None]) -> None:
        """Change what is kept in memory, once what it tells of is committed; never, if it is not."""
        self._afterwards.append(change)

    def committed(self) -> None:
        """Called by `Database.begin` after the commit."""
        for change in self._afterwards:
            change()

    @property
    def emitted(self) -> Sequence[Event]:
        """The events of this transaction that are not in the outbox yet, in order."""
        return tuple(self._events)

    async def because(self, reason: str) -> None:
        """Change the reason that the transition log records for the statements that follow."""
        await self.connection.execute("SELECT set_config('orrery.reason', $1, true)", reason)

    async def log_files(
        self,
        *,
        entity: Literal["file", "event_range", "order"],
        task_id: int,
        ids: Sequence[int],
        from_status: str | None,
        to_status: str,
        reason: str,
    ) -> None:
        """One line of the transition log for a batch of files or event ranges, or the order of a task."""
        if not ids:
            return
        await self.connection.execute(
            _LOG_BATCH, entity, list(ids), task_id, from_status, to_status, self.actor, reason, self._cause_event_id
        )

    async def next_ids(self, sequence: str, count: int) -> list[int]:
        """`count` new ids of a sequence, in order: ids are known before COPY."""
        if count <= 0:
            return []
        # one array: rows of one number each are dearer than the numbers
        found: list[int] = await self.connection.fetchval(
            "SELECT array_agg(nextval(s.id)) FROM (SELECT $1::text::regclass AS id OFFSET 0) s,"
            " generate_series(1, $2::integer)",
            sequence,
            count,
        )
        return found

    async def flush(self) -> bool:
        """Write the emitted events to the outbox; whether this transaction wrote any so far.

        Called by `Database.begin` before the commit; by handlers that emit thousands of them, after each slice, so that
        memory does not grow with the size of a task.
        """
        if not self._events:
            return self._wrote_events
        events, self._events = self._events, []
        ids = await self.next_ids(EVENT_ID_SEQUENCE, len(events))
        keys, bodies = [], []
        for event_id, event in zip(ids, events, strict=True):
            stamped = event.model_copy(update={"event_id": event_id, "occurred_at": self.now})
            keys.append(stamped.routing_key())
            bodies.append(stamped.model_dump_json())
        await self.connection.execute(_EMIT, ids, keys, bodies, self.actor)
        self._wrote_events = True
        return True
