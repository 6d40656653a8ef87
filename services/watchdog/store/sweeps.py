"""SQL of the reconciling sweep: one query for each kind, and the marks of what was announced when."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from shared.db.queries import Queries

SQL = Queries.beside(__file__)

# Rows in a condition for longer than the age, whose last announcement is 1, 2, 4 ... 64 ages ago; a row that came into
# the condition after its mark was made is new.
_DUE = """
WITH found AS ({query})
SELECT f.*, CASE WHEN m.swept_at >= f.since THEN m.times + 1 ELSE 1 END AS times_swept
  FROM found f LEFT JOIN sweep_marks m ON m.kind = $2 AND m.entity_id = f.entity_id
 WHERE m.entity_id IS NULL OR m.swept_at < f.since
    OR m.swept_at + make_interval(secs => $3::float8 * 2 ^ least(m.times, 6)) <= orrery_now()
 ORDER BY f.since, f.entity_id
 LIMIT $4
"""


async def due_for_sweep(
    connection: asyncpg.Connection, kind: str, *, before: datetime, age_s: float, most: int
) -> list[asyncpg.Record]:
    """Mark the rows of the kind's query that are due to be announced (again), and give them."""
    sql = _DUE.format(query=SQL.text(kind))
    rows = await connection.fetch(sql, before, kind, float(age_s), most)
    if rows:
        await SQL.run(
            connection,
            "mark_swept",
            kind=kind,
            entity_ids=[row["entity_id"] for row in rows],
            times=[row["times_swept"] for row in rows],
        )
    return rows
