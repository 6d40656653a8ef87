"""/api/v1/retention: what each rule of retention has, keeps and drops next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import asyncpg
from fastapi import Depends, FastAPI

from services.watchdog.policy.retention import RULES, Kept, Order, Rule, is_nearly_full, kept
from services.watchdog.store import retention as store
from shared.auth import Caller, access
from shared.auth.web import require
from shared.config.parameters import Parameters
from shared.db.database import Database
from shared.web.envelope import Envelope

Operator = Annotated[Caller, Depends(require(access.OPERATORS, "operator"))]


def add_retention(web: FastAPI, database: Database, parameters: Parameters) -> None:
    """Add the route."""

    @web.get("/api/v1/retention")
    async def retention(caller: Operator) -> Envelope:
        """Size, oldest row, growth a day and next drop of each rule; what it keeps and what it waits for."""
        async with database.read() as connection:
            found = await _report(connection, parameters)
        full = [one["rule"] for one in found if one["is_nearly_full"]]
        return Envelope(found, f"nearly as large as they may be: {', '.join(full)}" if full else "")


async def _report(connection: asyncpg.Connection, parameters: Parameters) -> list[dict[str, Any]]:
    known = await store.told(connection)
    return [_told(rule, kept(rule, parameters.read), parameters.read(rule.most_gb), known) for rule in RULES]


@dataclass(frozen=True)
class _Age:
    """The oldest row of a rule, and when it goes."""

    oldest_at: datetime | None
    next_drop_at: datetime | None


def _told(rule: Rule, held: Kept, most_gb: int, known: store.Told) -> dict[str, Any]:
    """Say all of one rule."""
    none: Mapping[str, Any] = {}
    size, put_off = known.sizes.get(rule.name, none), known.put_off.get(rule.name, none)
    position, n_bytes = known.positions.get(rule.name, none), size.get("n_bytes", 0)
    age = _age(rule, held.days, known.oldest.get(rule.name))
    return {
        "rule": rule.name,
        "tables": rule.tables,
        "order": rule.order,
        "keep_days": held.days,
        "because_of": held.for_rule or None,
        "never": rule.keeps,
        "then": rule.then or None,
        "n_bytes": n_bytes,
        "most_gb": most_gb or None,
        "is_nearly_full": is_nearly_full(n_bytes, most_gb),
        "bytes_a_day": size.get("bytes_a_day"),
        "oldest_at": age.oldest_at,
        "next_drop_at": age.next_drop_at,
        "n_dropped": position.get("n_dropped", 0),
        "dropped_at": position.get("dropped_at"),
        "n_waiting_tasks": put_off.get("n_tasks", 0),
        "waiting_task_id": put_off.get("task_id"),
    }


def _age(rule: Rule, days: int | None, oldest: datetime | None) -> _Age:
    if oldest is None or days is None:
        return _Age(oldest, None)
    whole_day = timedelta(days=1 if rule.order in (Order.DAYS, Order.JOBS) else 0)
    return _Age(None if rule.order is Order.WALK else oldest, oldest + timedelta(days=days) + whole_day)
