"""Slots of queues: how many Harvester wants to fill, for the queue or one of its resource types, until when.

The running number of a queue counts them (PanDA brokerage: numSlots).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import aiosql

from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork

queries = aiosql.from_path(Path(__file__).with_name("slots.sql"), "asyncpg")

FORGET_SLOTS_EVERY_S = 10.0


class RefusedSlots(ValueError):
    """A setting that cannot be; the message names the field, the value and what is allowed."""


@dataclass(frozen=True)
class SlotsSetting:
    """`resource_type` "": for those types of the queue together that have no number of their own.

    `n_slots` 0: as many as jobs are starting; None: none are set. `valid_until` None: until the next setting.
    """

    queue: str
    resource_type: str
    n_slots: int | None
    valid_until: datetime | None


class QueueSlots:
    """`changed` is told of queues whose slots are others than before: they are published with their statistics."""

    def __init__(self, changed: Callable[[Iterable[str]], None]) -> None:
        self._changed = changed

    async def set(self, work: UnitOfWork, setting: SlotsSetting, caller: Caller) -> None:
        """Store a setting in place of the one before. Raises RefusedSlots."""
        await self._check(work, setting)
        key = {"queue": setting.queue, "resource_type": setting.resource_type}
        if setting.n_slots is None:
            await queries.unset_slots(work.connection, **key)
        else:
            await queries.set_slots(work.connection, **key, n_slots=setting.n_slots, valid_until=setting.valid_until)
        details = {"resource_type": setting.resource_type, "n_slots": setting.n_slots}
        until = {} if setting.valid_until is None else {"valid_until": setting.valid_until.isoformat()}
        await queries.record_slots(
            work.connection, caller=caller.name, roles=sorted(caller.roles), target=setting.queue,
            details={**details, **until},
        )  # fmt: skip
        await self._add_up(work)
        self._changed([setting.queue])

    async def forget_expired(self, work: UnitOfWork) -> None:
        """Periodic, on one replica: settings whose time is over."""
        await queries.forget_slots(work.connection)
        await self._add_up(work)

    async def _add_up(self, work: UnitOfWork) -> None:
        self._changed([row["queue"] async for row in queries.add_up_slots(work.connection)])

    async def _check(self, work: UnitOfWork, setting: SlotsSetting) -> None:
        if not await queries.known_queue(work.connection, queue=setting.queue):
            raise RefusedSlots(f"panda_queue {setting.queue!r} is unknown; allowed: a queue of the grid")
        known = [row["resource_name"] async for row in queries.resource_type_names(work.connection)]
        if setting.resource_type and setting.resource_type not in known:
            allowed = ", ".join(known)
            raise RefusedSlots(f"resource_type {setting.resource_type!r} is unknown; allowed: {allowed}, or none")
        if setting.valid_until is not None and setting.valid_until <= work.now:
            when = setting.valid_until.isoformat()
            raise RefusedSlots(f"expiration_date {when} is over; allowed: a time after {work.now.isoformat()}")
