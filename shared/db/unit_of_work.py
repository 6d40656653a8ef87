"""One transaction: state changes, the events that announce them, and who did it and why."""

from __future__ import annotations

import time
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

# The same, and the inbox rows, in one round trip. The day comes from the event itself, so that a late duplicate meets
# the row of the first delivery. Rows are entered in order, so that two consumers of the same events cannot deadlock.
# The first event that is new is the cause that the log names, with the number of the others.
_OPEN_WITH_INBOX = """
WITH entered AS (
    INSERT INTO inbox (event_day, consumer, event_id)
    SELECT (key.occurred_at AT TIME ZONE 'UTC')::date, $3, key.event_id
      FROM unnest($4::timestamptz[], $5::bigint[]) AS key (occurred_at, event_id)
     ORDER BY 1, 3
    ON CONFLICT DO NOTHING
    RETURNING event_id
), new AS (
    SELECT coalesce(array_agg(event_id ORDER BY event_id), '{}') AS ids FROM entered
)
SELECT set_config('orrery.actor', $1, true),
       set_config('orrery.reason',
                  CASE WHEN cardinality(ids) > 1 THEN format('%s, first of %s events', $2::text, cardinality(ids))
                       ELSE $2 END, true),
       set_config('orrery.cause', coalesce(ids[1]::text, ''), true),
       orrery_now() AS now,
       ids
  FROM new
"""

# In simulations only: orrery_now() reads this setting, so it has to be set by a statement of its own before _OPEN.
_SET_NOW = "SELECT set_config('orrery.now', $1, true)"

# The id of an event is given here and written into its body: a round trip less than to ask for it before.
_EMIT = """
INSERT INTO outbox (event_id, routing_key, body, producer)
SELECT event_id, routing_key, '{"event_id":' || event_id || ',' || substr(body, 2), $3
  FROM (SELECT nextval('event_ids') AS event_id, routing_key, body
          FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS told (routing_key, body, place) ORDER BY place) new
"""

_LOG_BATCH = """
INSERT INTO transition_log (at, entity, entity_ids, task_id, from_status, to_status, actor, reason, cause_event_id)
VALUES (orrery_now(), $1, $2, $3, $4, $5, $6, $7, $8)
"""


@dataclass(frozen=True)
class InboxKey:
    """Which event a consumer handles in a transaction."""

    consumer: str
    event_id: int
    occurred_at: datetime


class UnitOfWork:
    """What a handler writes through. Made by `Database.begin` only."""

    def __init__(
        self, connection: asyncpg.Connection, *, actor: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: seconds for what goes on for so long; in a simulation those of the simulated time."""
        self.connection = connection
        self.actor, self.clock = actor, clock
        self.now: datetime
        self.new_events: frozenset[int] = frozenset()
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
        inbox: Sequence[InboxKey] = (),
    ) -> None:
        """Tell the triggers who acts and why, enter events into the inbox, and read the transaction's time.

        `new_events` are those of `inbox` that their consumer did not handle before; the first of them is the cause.
        """
        self._cause_event_id = cause_event_id
        if simulated_now is not None:
            await self.connection.execute(_SET_NOW, simulated_now.isoformat())
        if inbox:
            times, ids = [key.occurred_at for key in inbox], [key.event_id for key in inbox]
            consumer = inbox[0].consumer
            row = await self.connection.fetchrow(_OPEN_WITH_INBOX, self.actor, reason, consumer, times, ids)
            assert row is not None
            self.new_events = frozenset(row["ids"])
            self._cause_event_id = min(self.new_events, default=None)
        else:
            cause = "" if cause_event_id is None else str(cause_event_id)
            row = await self.connection.fetchrow(_OPEN, self.actor, reason, cause)
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

    async def log_batches(
        self,
        entity: Literal["file", "event_range"],
        batches: Sequence[tuple[int, str, str, Sequence[int]]],
        reason: str,
    ) -> None:
        """Add a line to the transition log for each batch: task, states before and after, ids."""
        cause = self._cause_event_id
        lines = [(entity, ids, task, was, now, self.actor, reason, cause) for task, was, now, ids in batches]
        if lines:
            await self.connection.executemany(_LOG_BATCH, lines)

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
        stamped = [event.model_copy(update={"occurred_at": self.now}) for event in events]
        keys = [event.routing_key() for event in stamped]
        bodies = [event.model_dump_json(exclude={"event_id"}) for event in stamped]
        await self.connection.execute(_EMIT, keys, bodies, self.actor)
        self._wrote_events = True
        return True
