"""What a transport is: it carries outbox rows to the subscriptions of the services attached to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.messaging.dispatcher import Dispatcher
from shared.messaging.subscription import NewsSubscription, WorkSubscription


class BusUnavailable(Exception):
    """The bus cannot be reached at start: the process ends, whoever supervises it tries again."""


@dataclass(frozen=True)
class Attached:
    """One service of this process. `on_news_interrupted` is called when news may have been missed.

    `dispatcher`: None where the service works on nothing.
    """

    service: str
    dispatcher: Dispatcher | None
    work: Sequence[WorkSubscription]
    news: Sequence[NewsSubscription]
    drains_dead_queue: bool = False
    on_news_interrupted: Sequence[Callable[[], None]] = ()


class Transport(Protocol):
    """Two of them exist: `rabbitmq.RabbitMQTransport` and `in_process.InProcessTransport`."""

    def attach(self, attached: Attached) -> None:
        """Register a service; before `start`."""

    async def start(self) -> None:
        """Connect, declare, relay, consume. Raises BusUnavailable."""

    async def stop(self, grace_s: float) -> None:
        """Take nothing more, let handlers finish within `grace_s`, publish what they wrote, disconnect."""

    def wake(self) -> None:
        """The outbox has new rows."""

    def problems(self) -> list[str]:
        """Why messages may not be flowing (for readiness); empty when all is well."""
