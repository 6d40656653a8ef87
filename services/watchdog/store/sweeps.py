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
#: tasks that one round looks at whatever moved
TASKS_OF_A_WALK = 200
EVER = datetime(1970, 1, 1, tzinfo=UTC)


async def due_for_sweep(
    connection: asyncpg.Connection, kind: str, *, before: datetime, age_s: float, most: int
) -> list[asyncpg.Record]:
    """Mark the rows of the kind's query that are due to be announced (again), and give them."""
    return await _due(connection, kind, [before], age_s, most)


@dataclass(frozen=True)
class Lately:
    """Rows that are due, and whether more may follow.

    `upto`: the last task of those that are looked at whatever moved.
    """

    rows: list[asyncpg.Record]
    more: bool
    upto: int


async def due_lately(
    connection: asyncpg.Connection,
    kind: str,
    *,
    before: datetime,
    age_s: float,
    most: int,
    overlap: timedelta,
    after: int = 0,
) -> Lately:
    """Find rows that came into their condition since the last sweep, and those that were stuck.

    As due_for_sweep. Rows that were stuck and went on are forgotten: they would be looked at again each time. A kind
    that asks for it gets the next tasks `after` one, too.
    """
    until: datetime | None = await SQL.value(connection, "swept_until", kind=kind)
    since = EVER if until is None else min(until, before) - overlap
    marked = await SQL.rows(connection, "marks_due", kind=kind, age_s=float(age_s), most=most)
    given: dict[str, Any] = {"before": before, "since": since, "marked": [row["entity_id"] for row in marked]}
    wanted = SQL.parameters(kind)
    if "upto" in wanted:
        upto = await SQL.value(connection, "upto_task", after=after, most=TASKS_OF_A_WALK)
        given |= {"after": after, "upto": upto or 0}
    found = await _due(connection, kind, [given[name] for name in wanted], age_s, most)
    if len(found) >= most:
        return Lately(found, True, after)
    went_on = set(given["marked"]) - {row["entity_id"] for row in found}
    await SQL.run(connection, "forget_marks_of", kind=kind, entity_ids=sorted(went_on))
    await SQL.run(connection, "note_swept_until", kind=kind, before=before)
    return Lately(found, len(marked) >= most, given.get("upto", 0))


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
