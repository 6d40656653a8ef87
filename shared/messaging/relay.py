"""Sends the outbox to RabbitMQ: rows are locked, published with pipelined confirms, then deleted.

A row that the broker did not confirm stays and is published again: delivery is at least once, never less.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aio_pika
import aiormq
import asyncpg
from aio_pika.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, DeliveryError, PublishError
from pamqp.commands import Basic

from shared.cancelling import cancellations_of_others_are_errors
from shared.db.database import Database, is_retryable
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.outbox import OutboxGauge
from shared.messaging.topology import Topology

log = logging.getLogger(__name__)

BATCH = 500
POLL_S = 1.0
PUBLISH_TIMEOUT_S = 10.0
#: no pass takes longer, whatever it waits for: the next one begins with connections that answer
PASS_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
HOLD_S = 5.0  # a row that the broker returned or refused is left alone for so long
LONGEST_DELAY_S = 5.0
RECENT = 50_000  # most passes look only so far below the newest row published: no rescan of deleted rows' entries

BUS_ERRORS: tuple[type[BaseException], ...] = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError)

_CLOSED = ("closed", "not opened", "not ready", "no active transport")


def is_bus_error(error: BaseException) -> bool:
    """Whether the bus, and not our code, caused the error.

    Also for a connection that was closed while we used it, for which its library raises RuntimeError.
    """
    told = str(error).lower()
    return isinstance(error, BUS_ERRORS) or (type(error) is RuntimeError and any(word in told for word in _CLOSED))


# The rows are held until the broker has answered for them, or has not for too long ($4): so long may the transaction
# do nothing.
_TAKE = """
SELECT event_id, routing_key, body, trace_parent, set_config('idle_in_transaction_session_timeout', $4, true)
FROM outbox
WHERE event_id > $1 AND NOT event_id = ANY($2)
ORDER BY event_id LIMIT $3 FOR UPDATE SKIP LOCKED
"""

_DELETE = "DELETE FROM outbox WHERE event_id = ANY($1)"


@dataclass
class _Published:
    """What became of one batch."""

    confirmed: list[int]
    failed: list[int]
    error: BaseException | None


class Relay:
    """Publishes the outbox of one database.

    Any number of them may run; each row is locked by one at a time.
    """

    def __init__(self, database: Database, url: str, topology: Topology, metrics: MessagingMetrics) -> None:
        self._database = database
        self._url = url
        self._topology = topology
        self._metrics = metrics
        self._woken = asyncio.Event()
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._held: dict[int, float] = {}
        self._newest = 0
        self._gauge = OutboxGauge(database, metrics)
        self._last_pass_at = time.monotonic()
        self._full_pass_at = 0.0
        self.last_error: str | None = None

    async def connect(self) -> None:
        """Connect and declare the topology. Raises what aio-pika raises when RabbitMQ is away."""
        await self._close_connection()
        self._connection = await aio_pika.connect(self._url, timeout=CONNECT_TIMEOUT_S)
        await self._open_channel()

    async def _open_channel(self) -> AbstractChannel:
        """A channel whose topology exists: what was deleted meanwhile is made again."""
        assert self._connection is not None
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            await self._topology.declare(channel)
        self._channel = channel
        return channel

    def wake(self) -> None:
        """There may be new rows; called after a commit."""
        self._woken.set()

    def problem(self) -> str | None:
        """Why this relay is not working, or None."""
        silent_s = time.monotonic() - self._last_pass_at
        if silent_s > PUBLISH_TIMEOUT_S + 2 * POLL_S:
            return f"no pass over the outbox for {silent_s:.0f} s"
        return self.last_error

    async def run(self) -> None:
        """Until cancelled. Survives both servers' absence."""
        delay_s = 0.1
        while True:
            try:
                with cancellations_of_others_are_errors():
                    async with asyncio.timeout(PASS_TIMEOUT_S):
                        taken = await self.publish_once()
                        if taken < BATCH:
                            await self._gauge.measure()
                self.last_error, delay_s = None, 0.1
            except Exception as error:
                self._last_pass_at = time.monotonic()
                self.last_error = f"{type(error).__name__}: {error}"
                if not is_bus_error(error) and not is_retryable(error):
                    log.exception("relay: unexpected error")
                else:
                    log.warning("relay: %s; next try in %.1f s", self.last_error, delay_s)
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, LONGEST_DELAY_S)
                continue
            self._last_pass_at = time.monotonic()
            if taken < BATCH:
                await self._wait()

    async def _wait(self) -> None:
        """Until somebody says that there is more, or the poll is due."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await self._woken.wait()
        self._woken.clear()

    async def publish_once(self) -> int:
        """Publish one batch; how many rows were taken.

        Raises when a server is away; confirmed rows are gone then.
        """
        channel = await self._ready_channel()
        floor = self._floor()
        failure: BaseException | None = None
        async with self._database.transaction() as connection:
            rows = await connection.fetch(_TAKE, floor, self._held_now(), BATCH, f"{PUBLISH_TIMEOUT_S + 2.0}s")
            if rows:
                result = await self._publish(channel, rows)
                await connection.execute(_DELETE, result.confirmed)
                self._metrics.published.inc(len(result.confirmed))
                self._newest = max(self._newest, rows[-1]["event_id"])
                self._held.update(dict.fromkeys(result.failed, time.monotonic() + HOLD_S))
                failure = result.error
        if failure is not None:
            # Whatever state the channel is in: the next pass opens another, and declares what is missing.
            self._channel = None
            if not isinstance(failure, DeliveryError):
                await self._close_connection()
            raise failure
        return len(rows)

    async def flush(self) -> None:
        """Publish everything that is there now; raises when a server is away."""
        self._full_pass_at = 0.0
        while await self.publish_once() == BATCH:
            pass

    async def close(self) -> None:
        await self._close_connection()

    async def _ready_channel(self) -> AbstractChannel:
        if self._connection is None or self._connection.is_closed:
            await self.connect()
        if self._channel is None or self._channel.is_closed:
            try:
                return await self._open_channel()
            except Exception:
                # A connection that broke while nothing was published does not know it: only a new one helps.
                await self._close_connection()
                raise
        return self._channel

    async def _publish(self, channel: AbstractChannel, rows: Sequence[asyncpg.Record]) -> _Published:
        """All rows at once on one channel, each awaiting its own confirm."""
        underlay = await channel.get_underlay_channel()
        results = await asyncio.gather(*(self._publish_row(underlay, row) for row in rows), return_exceptions=True)
        published = _Published([], [], None)
        for row, result in zip(rows, results, strict=True):
            if result is None:
                published.confirmed.append(row["event_id"])
            elif isinstance(result, DeliveryError):
                # PublishError: no queue for it, which only a broken topology explains. Else the broker said no.
                cause = "returned" if isinstance(result, PublishError) else "refused"
                self._metrics.publish_failures.labels(cause).inc()
                log.error("event %d (%s) was %s by RabbitMQ", row["event_id"], row["routing_key"], cause)
                published.failed.append(row["event_id"])
                published.error = result
            else:
                cause = "unanswered" if isinstance(result, TimeoutError) else "connection"
                self._metrics.publish_failures.labels(cause).inc()
                published.error = result
        return published

    async def _publish_row(self, channel: aiormq.abc.AbstractChannel, row: asyncpg.Record) -> None:
        key = row["routing_key"]
        headers = {"traceparent": row["trace_parent"]} if row["trace_parent"] else None
        await channel.basic_publish(
            row["body"].encode(),
            exchange=self._topology.events_exchange,
            routing_key=key,
            mandatory=self._topology.needs_queue(key),
            timeout=PUBLISH_TIMEOUT_S,
            properties=Basic.Properties(
                content_type="application/json",
                delivery_mode=2,
                message_id=str(row["event_id"]),
                message_type=key,
                headers=headers,
            ),
        )

    def _floor(self) -> int:
        """Where this pass starts: from the very beginning once per poll interval, else just below the newest row."""
        now = time.monotonic()
        if now - self._full_pass_at >= POLL_S:
            self._full_pass_at = now
            return 0
        return max(0, self._newest - RECENT)

    def _held_now(self) -> list[int]:
        now = time.monotonic()
        self._held = {event_id: until for event_id, until in self._held.items() if until > now}
        return list(self._held)

    async def _close_connection(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None and not connection.is_closed:
            try:
                async with asyncio.timeout(5.0):
                    await connection.close()
            except Exception:
                log.debug("closing the relay's connection failed", exc_info=True)
