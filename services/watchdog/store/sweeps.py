"""SQL of the reconciling sweep: one query for each kind, and the marks of what was announced when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)

# Rows in a condition for longer than the age, whose last announcement is 1, 2, 4 ... 64 ages ago; a row that came into
# the condition after its mark was made is new. The parameters of the query come last.
_DUE = """
WITH found AS ({query})
SELECT f.*, CASE WHEN m.swept_at >= f.since THEN m.times + 1 ELSE 1 END AS times_swept
  FROM found f LEFT JOIN sweep_marks m ON m.kind = $1 AND m.entity_id = f.entity_id
 WHERE m.entity_id IS NULL OR m.swept_at < f.since
    OR m.swept_at + make_interval(secs => $2::float8 * 2 ^ least(m.times, 6)) <= orrery_now()
 ORDER BY f.since, f.entity_id
 LIMIT $3
"""
#: tasks that one slice of a walk goes through; slices follow until it has gone through all
TASKS_OF_A_WALK = 2000
#: a walk begins so long after the last began, at the next round: within a minute each task is looked at
WALK_EVERY = timedelta(seconds=45)
#: slices of a walk that follow sooner look at nothing else: the first has
FOLLOWS_WITHIN = timedelta(seconds=5)
EVER = datetime(1970, 1, 1, tzinfo=UTC)


async def due_for_sweep(
    connection: asyncpg.Connection, kind: str, *, before: datetime, age_s: float, most: int
) -> list[asyncpg.Record]:
    """Mark the rows of the kind's query that are due to be announced (again), and give them."""
    return await _due(connection, kind, [before], age_s, most)


@dataclass(frozen=True)
class Lately:
    """Rows that are due, and whether more may follow."""

    rows: list[asyncpg.Record]
    more: bool


@dataclass(frozen=True)
class _Walk:
    """The next tasks of a walk, after one and up to one; None: all were looked at."""

    began_at: datetime | None
    after: int | None
    upto: int | None


async def due_lately(
    connection: asyncpg.Connection, kind: str, *, before: datetime, age_s: float, most: int, overlap: timedelta
) -> Lately:
    """Find rows that came into their condition since the last sweep, and those that were stuck.

    As due_for_sweep. Rows that were stuck and went on are forgotten: they would be looked at again each time. A kind
    that asks for it goes through all live tasks besides, in slices.
    """
    last = await SQL.row(connection, "swept_until", kind=kind)
    wanted, until = SQL.parameters(kind), None if last is None else last["until"]
    walk = await _next_walk(connection, last, before) if "upto" in wanted else None
    follows = walk is not None and bool(walk.after) and until is not None and before - until < FOLLOWS_WITHIN
    since = EVER if until is None else min(until, before) - overlap
    marked: list[int] = []
    if not follows:
        marked = [row["entity_id"] for row in await SQL.rows(
            connection, "marks_due", kind=kind, age_s=float(age_s), most=most
        )]  # fmt: skip
    given: dict[str, Any] = {"before": before, "since": before if follows else since, "marked": marked}
    given |= {"after": walk.after or 0, "upto": walk.upto or 0} if walk else {}
    found = await _due(connection, kind, [given[name] for name in wanted], age_s, most)
    if len(found) >= most:
        return Lately(found, True)
    if not follows:
        went_on = set(marked) - {row["entity_id"] for row in found}
        await SQL.run(connection, "forget_marks_of", kind=kind, entity_ids=sorted(went_on))
        await SQL.run(connection, "note_swept_until", kind=kind, before=before)
    if walk is not None:
        await SQL.run(connection, "note_walk", kind=kind, began_at=walk.began_at, after=walk.upto)
    return Lately(found, len(marked) >= most or (walk is not None and walk.upto is not None))


async def _next_walk(connection: asyncpg.Connection, last: asyncpg.Record | None, now: datetime) -> _Walk:
    """Where a walk goes on, or begins anew if it is time."""
    began_at, after = (None, None) if last is None else (last["walk_began_at"], last["walk_after"])
    if after is None:
        if began_at is not None and now - began_at < WALK_EVERY:
            return _Walk(began_at, None, None)
        began_at, after = now, 0
    upto = await SQL.value(connection, "upto_task", after=after, most=TASKS_OF_A_WALK)
    return _Walk(began_at, after, upto)


async def _due(
    connection: asyncpg.Connection, kind: str, arguments: Sequence[object], age_s: float, most: int
) -> list[asyncpg.Record]:
    query = re.sub(r"\$(\d+)", lambda found: f"${int(found[1]) + 3}", SQL.text(kind))
    sql = _DUE.format(query=query)
    rows: list[asyncpg.Record] = await connection.fetch(sql, kind, float(age_s), most, *arguments)
    if rows:
        await SQL.run(
            connection,
            "mark_swept",
            kind=kind,
            entity_ids=[row["entity_id"] for row in rows],
            times=[row["times_swept"] for row in rows],
        )
    return rows
