"""Hears news without a database, as long as the bus is there; says when some may have been missed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from shared.cancelling import cancellations_of_others_are_errors
from shared.events.base import Event
from shared.messaging.consumers import Consumers
from shared.messaging.metrics import MessagingMetrics
from shared.messaging.rabbitmq import LOOK_EVERY_S, REBUILD_AFTER, with_heartbeat
from shared.messaging.subscription import NewsSubscription
from shared.messaging.topology import Topology
from shared.messaging.transport import Attached

log = logging.getLogger(__name__)

CONNECT_AGAIN_S = 3.0
CONNECT_WITHIN_S = 30.0


class Listening:
    """The news of a service that goes on while the bus is away."""

    def __init__(
        self,
        url: str,
        topology: Topology,
        metrics: MessagingMetrics,
        service: str,
        news: Sequence[tuple[type[Event], Callable[[Any], Awaitable[None]]]],
        on_interrupted: Sequence[Callable[[], None]] = (),
    ) -> None:
        heard = [NewsSubscription(service, event, handler) for event, handler in news]
        self._attached = Attached(service, None, (), heard, on_news_interrupted=on_interrupted)
        self._url, self._topology, self._metrics = with_heartbeat(url), topology, metrics
        self._is_away = False

    async def run(self) -> None:
        """Listen until it is cancelled; connect again whenever the bus is back."""
        while True:
            consumers = Consumers(self._url, self._topology, self._metrics, [self._attached], prefetch=1)
            try:
                with cancellations_of_others_are_errors():
                    async with asyncio.timeout(CONNECT_WITHIN_S):
                        await consumers.start()
                    self._note(None)
                    await self._attached_for_long(consumers)
            except Exception as error:  # whatever it is, the service shows its pages
                self._note(error)
            finally:
                await consumers.stop(0.0)
            await asyncio.sleep(CONNECT_AGAIN_S)

    async def _attached_for_long(self, consumers: Consumers) -> None:
        """Return when a queue stays without a consumer, although its connection is open again."""
        bad_looks = 0
        while bad_looks < REBUILD_AFTER:
            await asyncio.sleep(LOOK_EVERY_S)
            async with asyncio.timeout(LOOK_EVERY_S * 3):
                bad_looks = bad_looks + 1 if await consumers.unattached() else 0

    def _note(self, error: Exception | None) -> None:
        if error is not None and not self._is_away:
            log.warning("no news are heard: RabbitMQ: %s: %s", type(error).__name__, error)
        elif error is None and self._is_away:
            log.info("news are heard again")
        self._is_away = error is not None
