"""Slots of queues: how many Harvester wants to fill, for the queue or one resource type, until when.

The running number of a queue counts them (PanDA brokerage: numSlots).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from shared.auth import Caller
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.problems import FieldProblem
from shared.model.queue_vos import vos_of_record
from shared.snapshot import KnownGrid

SQL = Queries.beside(__file__)

FORGET_SLOTS_EVERY_S = 10.0


class RefusedSlots(ValueError):
    """A setting that cannot be; `problem` names the field, the value and what is allowed."""

    def __init__(self, field: str, value: str, allowed: str, said: str) -> None:
        self.problem = FieldProblem(field, repr(value), allowed, said)
        super().__init__(said)


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
    """Stores slots; `changed` receives queues whose slots changed.

    These are published with their statistics.
    """

    def __init__(self, grid: KnownGrid, changed: Callable[[Iterable[str]], None]) -> None:
        self._grid, self._changed = grid, changed

    async def set(self, work: UnitOfWork, setting: SlotsSetting, caller: Caller) -> None:
        """Store a setting in place of the one before. Raises RefusedSlots."""
        await self._check(work, setting)
        key: dict[str, Any] = {"queue": setting.queue, "resource_type": setting.resource_type}
        if setting.n_slots is None:
            await SQL.run(work.connection, "unset_slots", **key)
        else:
            await SQL.run(work.connection, "set_slots", **key, n_slots=setting.n_slots, valid_until=setting.valid_until)
        details = {"resource_type": setting.resource_type, "n_slots": setting.n_slots}
        until = {} if setting.valid_until is None else {"valid_until": setting.valid_until.isoformat()}
        await SQL.run(
            work.connection,
            "record_slots",
            caller=caller.name,
            roles=sorted(caller.roles),
            target=setting.queue,
            details={**details, **until},
        )
        await self._add_up(work)
        self._changed([setting.queue])

    async def vos_of(self, connection: asyncpg.Connection, queue: str) -> frozenset[str]:
        """The VOs of a queue, as its record says (CRIC: vo_name, one or a list); none: it is of every VO."""
        return vos_of_record(await SQL.value(connection, "vos_of_queue", queue=queue))

    async def forget_expired(self, work: UnitOfWork) -> None:
        """Delete settings whose time is over; periodic, on one replica."""
        await SQL.run(work.connection, "forget_slots")
        await self._add_up(work)

    async def _add_up(self, work: UnitOfWork) -> None:
        self._changed([row["queue"] for row in await SQL.rows(work.connection, "add_up_slots")])

    async def _check(self, work: UnitOfWork, setting: SlotsSetting) -> None:
        grid = await self._grid.grid(work.connection)
        if setting.queue not in grid.queues:
            said = f"panda_queue {setting.queue!r} is unknown; allowed: a queue of the grid"
            raise RefusedSlots("panda_queue", setting.queue, "allowed: a queue of the grid", said)
        known = [one.name for one in grid.resource_types]
        if setting.resource_type and setting.resource_type not in known:
            allowed = f"allowed: {', '.join(known)}, or none"
            said = f"resource_type {setting.resource_type!r} is unknown; {allowed}"
            raise RefusedSlots("resource_type", setting.resource_type, allowed, said)
        if setting.valid_until is not None and setting.valid_until <= work.now:
            when = setting.valid_until.isoformat()
            allowed = f"allowed: a time after {work.now.isoformat()}"
            raise RefusedSlots("expiration_date", when, allowed, f"expiration_date {when} is over; {allowed}")
