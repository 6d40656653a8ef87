"""Tables partitioned by day: makes the next days' partitions, drops old ones, stops nobody.

Whoever waits for a lock makes all wait that come after it. So each lock is waited for a moment only, and tried again
later; partitions that are made or emptied are locked alone, and only the drop of an empty one locks its table, for as
long as that takes. Names of tables and columns in these statements are the constants below, never input.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import asyncpg

log = logging.getLogger(__name__)

DAYS_AHEAD = 3
#: for a lock: writers that came later wait as long
_A_MOMENT = "SET LOCAL lock_timeout = '20ms'"
#: rows of a day that the default partition has, and that move when the day's partition is made; a day with more stays
MOST_MOVED = 1000


@dataclass(frozen=True)
class DailyTable:
    """A table partitioned by `column` (a date or a timestamptz), one child per UTC day.

    Children are named `<name>_YYYYMMDD`; a default child takes whatever lies outside.
    """

    name: str
    column: str

    def child(self, day: date) -> str:
        """Name the partition of a day."""
        return f"{self.name}_{day:%Y%m%d}"

    def between(self, day: date) -> str:
        """Say the condition that a row is of a day."""
        return f"{self.column} >= '{day}' AND {self.column} < '{day + timedelta(days=1)}'"


DAILY_TABLES = (
    DailyTable("inbox", "event_day"),
    DailyTable("transition_log", "at"),
    DailyTable("jobs_archive", "archived_at"),
)

_CHILDREN = """
SELECT child.relname FROM pg_inherits
JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = $1::text::regclass
"""


async def days_of(connection: asyncpg.Connection, table: DailyTable) -> list[date]:
    """Read which days have a partition, the oldest first."""
    names = [row["relname"].removeprefix(f"{table.name}_") for row in await connection.fetch(_CHILDREN, table.name)]
    return sorted(datetime.strptime(name, "%Y%m%d").replace(tzinfo=UTC).date() for name in names if name.isdigit())


async def keep_partitions(connection: asyncpg.Connection) -> list[str]:
    """Make all partitions of today and the next days in one transaction: nobody uses the tables yet."""
    made = []
    while (name := await make_next_partition(connection)) is not None:
        made.append(name)
    return made


async def make_next_partition(connection: asyncpg.Connection) -> str | None:
    """Make one of the missing partitions of today and the next days; its name, None where none is.

    It runs in the caller's transaction, which ends soon: it holds the default partition. Raises LockNotAvailableError.
    """
    today: date = await connection.fetchval("SELECT (orrery_now() AT TIME ZONE 'UTC')::date")
    for table in DAILY_TABLES:
        known = set(await days_of(connection, table))
        for day in (today + timedelta(days=offset) for offset in range(DAYS_AHEAD)):
            if day not in known and await _make(connection, table, day):
                return table.child(day)
    return None


async def _make(connection: asyncpg.Connection, table: DailyTable, day: date) -> bool:
    """Attach a table that was made and filled by itself; whether it was.

    Rows of its day that the default partition took meanwhile move into it; if they are many, the day stays there.
    """
    default, child, between = f"{table.name}_default", table.child(day), table.between(day)
    counted = f"SELECT count(*) FROM (SELECT FROM {default} WHERE {between} LIMIT {MOST_MOVED + 1}) found"  # noqa: S608
    if await connection.fetchval(counted) > MOST_MOVED:
        return False
    await connection.execute(_A_MOMENT)
    await connection.execute(
        f"CREATE TABLE {child} (LIKE {table.name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS,"
        f" CONSTRAINT {child}_day CHECK ({between}))"
    )
    # The moved rows are taken under the lock that ATTACH takes anyway: none comes between.
    await connection.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
    await connection.execute(
        f"WITH moved AS (DELETE FROM {default} WHERE {between} RETURNING *) "  # noqa: S608
        f"INSERT INTO {child} SELECT * FROM moved"
    )
    await connection.execute(
        f"ALTER TABLE {table.name} ATTACH PARTITION {child} FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    )
    await connection.execute(f"ALTER TABLE {child} DROP CONSTRAINT {child}_day")
    return True


async def empty_or_drop(connection: asyncpg.Connection, table: DailyTable, days: Sequence[date]) -> bool:
    """Empty the first of these partitions that has rows, else drop the first; whether it was dropped.

    What empties one locks it alone, the drop locks the table. Raises LockNotAvailableError while somebody reads it.
    """
    await connection.execute(_A_MOMENT)
    for child in map(table.child, days):
        if await connection.fetchval(f"SELECT EXISTS (SELECT FROM {child})"):  # noqa: S608
            await connection.execute(f"TRUNCATE {child}")
            log.info("emptied partition %s", child)
            return False
    await connection.execute(f"DROP TABLE {table.child(days[0])}")
    log.info("dropped partition %s", table.child(days[0]))
    return True


async def drop_outside(connection: asyncpg.Connection, table: DailyTable, first_kept: date, most: int) -> int:
    """Drop rows of earlier days that lie in no partition of their own; how many."""
    default = f"{table.name}_default"
    status = await connection.execute(
        f"DELETE FROM {default} WHERE ctid = ANY(ARRAY("  # noqa: S608
        f"SELECT ctid FROM {default} WHERE {table.column} < '{first_kept}' LIMIT {most:d}))"
    )
    return int(status.rpartition(" ")[2])
