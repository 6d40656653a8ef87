"""Hand an event to a service as the bus would; give back what was announced."""

from __future__ import annotations

from collections.abc import Sequence

from shared.db import Database
from shared.events import Event, TasksCounted
from shared.runtime.service import Service


async def started(service: Service) -> Service:
    """Run what a service does at its start."""
    for start in service.on_start:
        await start()
    return service


async def deliver(database: Database, service: Service, event: Event) -> Sequence[Event]:
    """Call the service's handler for this event, in one transaction; the events that it emitted.

    What job generation tells itself, that it counted ends of jobs, is delivered at once.
    """
    handler = dict(service.work)[type(event)]
    async with database.begin(reason=f"{service.name} handles {event.routing_key()}") as work:
        await handler(event, work)
        emitted = work.emitted
    said: list[Event] = []
    for one in emitted:
        said += await deliver(database, service, one) if isinstance(one, TasksCounted) else [one]
    return tuple(said)
