"""Records what became of an event that was not handled: it comes again, or it is parked."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from shared.db.database import Database
from shared.events.base import Event
from shared.messaging import ledger
from shared.messaging.failures import Transient, storable
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.subscription import Delivery, DeliveryOutcome

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RetryPolicy:
    """How often a failed handler is tried before its message is parked, and after which waits.

    Also how often a transaction that PostgreSQL refused (deadlock, serialization) is repeated on the spot, and after
    how long a message whose row somebody held comes again.
    """

    tries: int = 5
    first_delay_s: float = 1.0
    factor: float = 5.0
    database_tries: int = 20
    first_wait_s: float = 1.0
    longest_wait_s: float = 15.0

    def delay_s(self, attempts: int) -> float:
        return min(self.first_delay_s * self.factor ** max(0, attempts - 1), 600.0)

    def wait_s(self, waits: int) -> float:
        """Twice as long each time: 1, 2, 4, 8, 15 s."""
        return min(self.first_wait_s * 2.0 ** min(waits, 10), self.longest_wait_s)


class FailureRecords:
    """Each record is one transaction of its own; it raises what the database raises."""

    def __init__(self, database: Database, metrics: MessagingMetrics, retry: RetryPolicy) -> None:
        self._database, self._metrics, self._retry = database, metrics, retry

    async def transient(self, delivery: Delivery, event: Event, failure: Transient) -> None:
        attempts = delivery.attempts + 1
        log.info("%s: event %d deferred: %s", delivery.consumer, event.event_id, failure.reason)
        async with self._database.begin(reason=failure.reason, cause_event_id=event.event_id) as work:
            await ledger.defer(
                work.connection,
                delivery,
                event.event_id,
                reason=failure.reason,
                attempts=attempts,
                after_s=failure.retry_after_s,
            )
            await ledger.name_tasks(work.connection, delivery.consumer, event)

    async def wait(self, delivery: Delivery, event: Event, reason: str) -> None:
        """Defer a message because somebody held what its handler needs; others have its session now.

        That is not its failure, so it is not counted as one.
        """
        self._metrics.row_waits.labels(delivery.consumer).inc()
        log.warning("%s: event %d %s; it comes again later", delivery.consumer, event.event_id, reason)
        async with self._database.begin(reason=reason, cause_event_id=event.event_id) as work:
            await ledger.defer(
                work.connection,
                delivery,
                event.event_id,
                reason=reason,
                attempts=delivery.attempts,
                waits=delivery.waits + 1,
                after_s=self._retry.wait_s(delivery.waits),
            )

    async def permanent(self, delivery: Delivery, event: Event, reason: str, task_id: int | None) -> None:
        log.error("%s: event %d parked: %s", delivery.consumer, event.event_id, reason)
        async with self._database.begin(reason=reason, cause_event_id=event.event_id) as work:
            await ledger.forget_deferred(work.connection, delivery.consumer, event.event_id)
            await ledger.park(
                work.connection,
                consumer=delivery.consumer,
                routing_key=delivery.routing_key,
                body=delivery.body,
                reason=reason,
                event_id=event.event_id,
                task_id=task_id,
            )
            concerned = await ledger.name_tasks(work.connection, delivery.consumer, event)
            await ledger.note_error(work.connection, concerned, f"{delivery.consumer}: {reason}")
            if task_id is not None:
                await ledger.hold_task(work.connection, task_id, reason)

    async def bug(self, delivery: Delivery, event: Event, error: Exception) -> DeliveryOutcome:
        """Defer what failed by a bug a few times, for it may be a matter of timing, then park it."""
        reason = storable(traceback.format_exception_only(error)[-1].strip())
        log.error("%s: event %d: handler failed", delivery.consumer, event.event_id, exc_info=error)
        attempts = delivery.attempts + 1
        if attempts < self._retry.tries:
            await self.transient(delivery, event, Transient(reason, self._retry.delay_s(attempts)))
            return DeliveryOutcome.DEFERRED
        await self.permanent(delivery, event, f"failed {attempts} times: {reason}", getattr(event, "task_id", None))
        return DeliveryOutcome.PARKED
