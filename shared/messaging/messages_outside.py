"""Messages that programs of others send into our RabbitMQ, read in batches.

Rucio's daemon hermes speaks STOMP; RabbitMQ's own plugin puts what is sent to `/topic/KEY` into the exchange
`amq.topic` with that key. One queue for all replicas is bound to it. Messages are settled after they were handled; what
cannot be handled goes to the dead queue, like any message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue
from aiormq.exceptions import AMQPError, ChannelInvalidStateError

from shared.messaging.topology import DECLARE_TIMEOUT_S, Topology

log = logging.getLogger(__name__)

AT_ONCE = 500
CONNECT_AGAIN_AFTER_S = 5.0
#: takes the bodies; which of them (by place) make no sense
Handle = Callable[[Sequence[bytes]], Awaitable[frozenset[int]]]


class MessagesOutside:
    """`run` reads for as long as the process lives; `key`: of the topic that the other program sends to."""

    def __init__(self, url: str, key: str, name: str, handle: Handle, topology: Topology | None = None) -> None:
        self._url, self._key, self._name, self._handle = url, key, name, handle
        self._topology = topology or Topology()

    async def run(self) -> None:
        """Until cancelled; a connection that breaks is made again."""
        while True:
            try:
                await self._read()
            except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError) as error:
                log.warning("messages to %s are not read now: %s: %s", self._key, type(error).__name__, error)
            await asyncio.sleep(CONNECT_AGAIN_AFTER_S)

    async def _read(self) -> None:
        """Until the connection ends."""
        connection = await aio_pika.connect(self._url, timeout=DECLARE_TIMEOUT_S)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=AT_ONCE)
            queue = await self._declared(channel)
            inbox: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
            connection.close_callbacks.add(lambda *_: inbox.put_nowait(None))
            channel.close_callbacks.add(lambda *_: inbox.put_nowait(None))
            await queue.consume(inbox.put)
            while (first := await inbox.get()) is not None:
                some = [first]
                while len(some) < AT_ONCE and not inbox.empty():
                    another = inbox.get_nowait()
                    if another is None:
                        return
                    some.append(another)
                await self._settle(some)

    async def _declared(self, channel: aio_pika.abc.AbstractChannel) -> AbstractQueue:
        """The queue, bound to the topic. It has the same dead letters as every other."""
        arguments = {"x-queue-type": "quorum", **self._topology.work_arguments()}
        queue = await channel.declare_queue(
            self._topology.queue_of(self._name), durable=True, arguments=arguments, timeout=DECLARE_TIMEOUT_S
        )
        await queue.bind("amq.topic", routing_key=self._key, timeout=DECLARE_TIMEOUT_S)
        return queue

    async def _settle(self, messages: Sequence[AbstractIncomingMessage]) -> None:
        """All are handled, or go back; those without sense are dead."""
        try:
            senseless = await self._handle([one.body for one in messages])
        except Exception:
            log.exception("%s messages to %s are tried again", len(messages), self._key)
            await asyncio.sleep(CONNECT_AGAIN_AFTER_S)
            for one in messages:
                await one.reject(requeue=True)
            return
        for place, one in enumerate(messages):
            await (one.reject(requeue=False) if place in senseless else one.ack())
