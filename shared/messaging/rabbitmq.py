"""The RabbitMQ transport: a relay that publishes, consumers, and a check that messages flow.

The check runs every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from aiormq.exceptions import AMQPError, ChannelInvalidStateError

from shared.cancelling import cancellations_of_others_are_errors, end
from shared.db.database import Database
from shared.messaging.consumers import Consumers
from shared.messaging.ledger import note_queues
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.relay import Relay
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached, BusUnavailable

log = logging.getLogger(__name__)

LOOK_EVERY_S = 3.0
#: looks after which it is counted what waits
COUNT_EVERY = 5
REBUILD_AFTER = 5  # looks in a row with a consumer missing: then everything is connected again
#: RabbitMQ gives a peer up after two that it missed, and its messages to others
HEARTBEAT_S = 8


class RabbitMQTransport:
    """One per process, for all services in it."""

    def __init__(
        self,
        url: str,
        database: Database,
        metrics: MessagingMetrics,
        *,
        topology: Topology | None = None,
        prefetch: int = 16,
    ) -> None:
        self._url = with_heartbeat(url)
        self._metrics = metrics
        self._topology = topology or Topology()
        self._prefetch = prefetch
        self._attached: list[Attached] = []
        self._consumers: Consumers | None = None
        self._missing: list[str] = []
        self._connection_problem: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.relay = Relay(database, self._url, self._topology, metrics)
        self._database = database

    def attach(self, attached: Attached) -> None:
        self._attached.append(attached)

    def wake(self) -> None:
        self.relay.wake()

    async def start(self) -> None:
        """Connect, declare the topology, relay, consume. Raises BusUnavailable."""
        try:
            await self.relay.connect()
            self._consumers = self._make_consumers()
            await self._consumers.start()
        except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError) as error:
            if self._consumers is not None:
                await self._consumers.stop(0.0)
            await self.relay.close()
            reason = f"RabbitMQ cannot be used (ORRERY_RABBITMQ_URL): {type(error).__name__}: {error}"
            raise BusUnavailable(reason) from error
        self._database.on_commit.append(self.wake)
        self._tasks = [
            asyncio.create_task(self.relay.run(), name="relay"),
            asyncio.create_task(self._look(), name="consumers' health"),
            asyncio.create_task(self._count(), name="what waits in queues"),
        ]

    async def stop(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        await end(self._tasks[1:])
        if self._consumers is not None:
            await self._consumers.stop(grace_s)
        await end(self._tasks)
        with contextlib.suppress(ValueError):
            self._database.on_commit.remove(self.wake)
        if self._tasks:
            await self._flush(max(1.0, deadline - time.monotonic()))
        await self.relay.close()

    async def _flush(self, grace_s: float) -> None:
        try:
            async with asyncio.timeout(grace_s):
                await self.relay.flush()
        except Exception as error:
            log.warning("the outbox could not be emptied at the stop (another replica will): %s", error)

    def problems(self) -> list[str]:
        found = [f"queue {queue} is not consumed" for queue in self._missing]
        if self._connection_problem:
            found.append(self._connection_problem)
        relay = self.relay.problem()
        if relay:
            found.append(f"relay: {relay}")
        if any(task.done() for task in self._tasks):
            found.append("a task of the transport has ended")
        return found

    def _make_consumers(self) -> Consumers:
        return Consumers(self._url, self._topology, self._metrics, self._attached, prefetch=self._prefetch)

    async def _look(self) -> None:
        """Every few seconds: is every queue consumed? A queue that stays without a consumer is connected again."""
        bad_looks = 0
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                with cancellations_of_others_are_errors():
                    async with asyncio.timeout(LOOK_EVERY_S * 3):
                        assert self._consumers is not None
                        self._missing = await self._consumers.unattached()
                self._connection_problem = None
            except Exception as error:
                self._connection_problem = f"RabbitMQ: {type(error).__name__}: {error}"
            self._metrics.consumers_missing.set(len(self._missing))
            bad_looks = bad_looks + 1 if self._missing or self._connection_problem else 0
            if bad_looks >= REBUILD_AFTER and await self._rebuild():
                bad_looks = 0

    async def _count(self) -> None:
        """Note now and then what waits in the queues of this process."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S * COUNT_EVERY)
            try:
                with cancellations_of_others_are_errors():
                    async with asyncio.timeout(LOOK_EVERY_S * COUNT_EVERY):
                        assert self._consumers is not None
                        counts = await self._consumers.waiting()
                        if counts:
                            async with self._database.begin(reason="what waits in queues") as work:
                                await note_queues(work.connection, counts)
            except Exception as error:  # the look tells of what is wrong with the bus, and everybody of the database
                log.debug("queues could not be counted: %s", error)

    async def _rebuild(self) -> bool:
        """Replace the consumers by new ones on a new connection; False when RabbitMQ is still away."""
        log.warning("consumers are missing (%s): reconnecting", ", ".join(self._missing) or self._connection_problem)
        assert self._consumers is not None
        replacement = self._make_consumers()
        try:
            with cancellations_of_others_are_errors():
                async with asyncio.timeout(30.0):
                    await replacement.start()
        except Exception as error:
            log.warning("RabbitMQ is still away: %s", error)
            await replacement.stop(0.0)
            return False
        old, self._consumers = self._consumers, replacement
        await old.stop(5.0)
        self._missing, self._connection_problem = [], None
        return True


def with_heartbeat(url: str) -> str:
    """A short heartbeat, so that a peer that vanished without closing is noticed."""
    if "heartbeat=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}heartbeat={HEARTBEAT_S}"
