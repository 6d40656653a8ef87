"""Rows of periodic tasks. Each function runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.task_definition.tasks.policy.periodic import PeriodicStatus, rights_of_today
from shared.auth import Caller
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)
#: a token that was revoked is believed for so long at most, with room for a clock
IN_FORCE_AFTER_S = 15.0


@dataclass(frozen=True)
class PeriodicTask:
    """One series of tasks; its row is locked."""

    periodic_id: int
    task_name: str
    user_name: str
    vo: str
    status: PeriodicStatus
    task_parameters: Mapping[str, Any]
    caller: Mapping[str, Any]
    seen: Mapping[str, Any] | None
    source: str | None
    period_s: int
    next_at: datetime
    ends_at: datetime | None
    n_submitted: int

    def as_caller(self) -> Caller:
        """Who submitted it, with what is left today of the rights of that time."""
        given = _caller(self.caller)
        return rights_of_today(given, given if self.seen is None else _caller(self.seen), self.vo)

    def is_of(self, caller: Caller) -> bool:
        """Whether the caller is who submitted it."""
        return caller.name == self.caller["name"] and self.source in (None, caller.source)


@dataclass(frozen=True)
class Lapsed:
    """A series that nobody stands for any more: `revoked` says who was, `is_unseen` who was not heard of."""

    periodic_id: int
    submitter: str
    user_name: str
    revoked: str | None
    is_unseen: bool


def _caller(said: Mapping[str, Any]) -> Caller:
    return Caller(
        said["name"],
        frozenset(said["roles"]),
        frozenset(said["groups"]),
        said["vo"],
        said["is_of_every_vo"],
        roles_in={vo: frozenset(roles) for vo, roles in said["roles_in"].items()},
    )


def described(caller: Caller) -> dict[str, Any]:
    """What is kept of who submits."""
    return {
        "name": caller.name,
        "roles": sorted(caller.roles),
        "groups": sorted(caller.groups),
        "vo": caller.vo,
        "is_of_every_vo": caller.is_of_every_vo,
        "roles_in": {vo: sorted(roles) for vo, roles in caller.roles_in.items()},
    }


async def insert(work: UnitOfWork, **columns: Any) -> int:
    return int(await SQL.value(work.connection, "insert_periodic", **columns))


async def lock(work: UnitOfWork, periodic_id: int) -> PeriodicTask | None:
    row = await SQL.row(work.connection, "lock_periodic", periodic_id=periodic_id)
    return None if row is None else PeriodicTask(**dict(row))


async def due(work: UnitOfWork, count: int) -> list[PeriodicTask]:
    """Lock those whose time has come and that nobody else has at hand."""
    return [PeriodicTask(**dict(row)) for row in await SQL.rows(work.connection, "due_periodic", count=count)]


async def note_seen(work: UnitOfWork, caller: Caller) -> None:
    """Remember what a token of somebody who has series says; one that may not submit says nothing."""
    if caller.has_right("submit"):
        await SQL.run(
            work.connection,
            "note_seen",
            name=caller.name,
            source=caller.source,
            vo=caller.vo,
            caller=described(caller),
            in_force_after_s=IN_FORCE_AFTER_S,
        )


async def lapsed(
    work: UnitOfWork,
    seen_within_s: float,
    *,
    status: PeriodicStatus = "active",
    periodic_id: int | None = None,
    count: int = 1,
) -> list[Lapsed]:
    """Find series in a state, or one of them, that nobody stands for."""
    given: dict[str, Any] = {"status": status, "periodic_id": periodic_id, "count": count}
    rows = await SQL.rows(work.connection, "lapsed_periodic", seen_within_s=seen_within_s, **given)
    return [Lapsed(**dict(row)) for row in rows]


async def move(
    work: UnitOfWork, periodic_id: int, status: PeriodicStatus, allowed: Collection[str], reason: str | None = None
) -> bool:
    """Compare and set the state of a series; the reason is told to who lists it."""
    given: dict[str, Any] = {"status": status, "allowed": sorted(allowed), "reason": reason}
    return await SQL.value(work.connection, "move_periodic", periodic_id=periodic_id, **given) is not None


async def note_submitted(
    work: UnitOfWork, periodic_id: int, *, task_id: int | None, error: str | None, next_at: datetime
) -> None:
    await SQL.run(
        work.connection, "note_submitted", periodic_id=periodic_id, task_id=task_id, error=error, next_at=next_at
    )


async def list_all(
    work: UnitOfWork, *, user_name: str | None, status: PeriodicStatus | None, limit: int
) -> list[dict[str, Any]]:
    rows = await SQL.rows(work.connection, "list_periodic", user_name=user_name, status=status, count=limit)
    return [dict(row) for row in rows]
