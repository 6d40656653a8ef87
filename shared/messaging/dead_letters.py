"""The broker's dead queue: what no consumer could decode, or what crashed its consumer repeatedly.

It is emptied into `parked_messages`, where people can see the reason and send a message again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from shared.db.database import Database, is_retryable
from shared.messaging import ledger
from shared.messaging.codec import Undecodable, decode
from shared.messaging.gate import DatabaseGate
from shared.messaging.topology import DELIVERY_LIMIT, Topology
from shared.model.whole_numbers import LARGEST_ID


async def park(database: Database, gate: DatabaseGate, topology: Topology, message: Any) -> None:
    """Park one message (aio-pika's IncomingMessage); waits as long as PostgreSQL is away."""
    queue, cause = _origin(message.headers or {})
    consumer = topology.consumer_of(queue)
    routing_key = message.type or message.routing_key or ""
    reason = _reason(topology, consumer, cause, routing_key, message.body)
    event_id, task_id = _ids(message.body)
    while True:
        await gate.opened()
        try:
            async with database.begin(reason="dead message") as work:
                await ledger.park(
                    work.connection,
                    consumer=consumer,
                    routing_key=routing_key,
                    body=message.body,
                    reason=reason,
                    event_id=event_id,
                    task_id=task_id,
                )
                if task_id is not None and cause == "delivery_limit":
                    await ledger.hold_task(work.connection, task_id, reason)
            return
        except Exception as error:
            if not is_retryable(error):
                raise
            await gate.probe()
            await asyncio.sleep(0.1)


def _origin(headers: Mapping[str, Any]) -> tuple[str, str]:
    """The queue that gave the message up, and why, from the broker's own x-death header."""
    deaths = headers.get("x-death") or []
    if not deaths:
        return "unknown", "unknown"
    return str(deaths[0].get("queue", "unknown")), str(deaths[0].get("reason", "unknown"))


def _reason(topology: Topology, consumer: str, cause: str, routing_key: str, body: bytes) -> str:
    if cause == "delivery_limit":
        return f"crashed its consumer {DELIVERY_LIMIT} times"
    for work in topology.work_queues():
        if work.consumer == consumer:
            try:
                decode(work.event, body, routing_key=routing_key)
            except Undecodable as error:
                return str(error)
    return f"given up by the broker: {cause}"


def _ids(body: bytes) -> tuple[int | None, int | None]:
    """Event and task of a body that is at least JSON."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None, None
    if not isinstance(content, dict):
        return None, None
    return _positive(content.get("event_id")), _positive(content.get("task_id"))


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST_ID else None
