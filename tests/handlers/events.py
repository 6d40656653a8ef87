"""Hand an event to a service as the bus would, in one transaction; give back what was announced."""

from __future__ import annotations

from collections.abc import Sequence

from shared.db import Database
from shared.events import Event
from shared.runtime.service import Service


async def started(service: Service) -> Service:
    """Run what a service does at its start."""
    for start in service.on_start:
        await start()
    return service


async def deliver(database: Database, service: Service, event: Event) -> Sequence[Event]:
    """Call the service's handler for this event; the events that it emitted."""
    handler = dict(service.work)[type(event)]
    async with database.begin(reason=f"{service.name} handles {event.routing_key()}") as work:
        await handler(event, work)
        return work.emitted
