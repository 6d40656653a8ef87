"""Keeps tables partitioned by day: makes the next days' partitions, drops old ones.

Names of tables and columns in these statements are the constants below, never input.

How long a table is kept is the runtime parameter `maintenance.<TABLE>_KEEP_DAYS`; 0 keeps it for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import asyncpg

log = logging.getLogger(__name__)

DAYS_AHEAD = 3


@dataclass(frozen=True)
class DailyTable:
    """A table partitioned by `column` (a date or a timestamptz), one child per UTC day.

    Children are named `<name>_YYYYMMDD`; a default child takes whatever lies outside.
    """

    name: str
    column: str
    keep_days: int


DAILY_TABLES = (
    DailyTable("inbox", "event_day", 7),
    DailyTable("transition_log", "at", 0),
    DailyTable("jobs_archive", "archived_at", 0),
)

_CHILDREN = """
SELECT child.relname FROM pg_inherits
JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = $1::text::regclass
"""

_KEEP = """
SELECT value::integer FROM parameters
WHERE app = 'orrery' AND component = 'maintenance' AND key = $1 AND vo = '' AND type = 'int'
"""


async def keep_partitions(connection: asyncpg.Connection) -> list[str]:
    """Make the partitions of today and the next days, drop the old; the names made.

    It runs in the caller's transaction.
    """
    # A partition needs a lock on its parent: better to try again in an hour than to make everybody wait.
    await connection.execute("SET LOCAL lock_timeout = '5s'")
    today: date = await connection.fetchval("SELECT (orrery_now() AT TIME ZONE 'UTC')::date")
    made = []
    for table in DAILY_TABLES:
        children = {row["relname"] for row in await connection.fetch(_CHILDREN, table.name)}
        for offset in range(DAYS_AHEAD):
            day = today + timedelta(days=offset)
            child = f"{table.name}_{day:%Y%m%d}"
            if child not in children:
                await _make(connection, table, day, child)
                made.append(child)
        keep = await connection.fetchval(_KEEP, f"{table.name.upper()}_KEEP_DAYS")
        await _drop_old(connection, table, children, today, table.keep_days if keep is None else keep)
    return made


async def _make(connection: asyncpg.Connection, table: DailyTable, day: date, child: str) -> None:
    """A new child; rows of its day that the default child took meanwhile move into it."""
    default = f"{table.name}_default"
    between = f"{table.column} >= '{day}' AND {table.column} < '{day + timedelta(days=1)}'"
    if not await connection.fetchval(f"SELECT EXISTS (SELECT FROM {default} WHERE {between})"):  # noqa: S608
        await connection.execute("SELECT ensure_day_partitions($1, $2, 1)", table.name, day)
        return
    await connection.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
    await connection.execute(f"CREATE TABLE {child} (LIKE {table.name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
    await connection.execute(
        f"WITH moved AS (DELETE FROM {default} WHERE {between} RETURNING *) "  # noqa: S608
        f"INSERT INTO {child} SELECT * FROM moved"
    )
    await connection.execute(
        f"ALTER TABLE {table.name} ATTACH PARTITION {child} FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
    )


async def _drop_old(
    connection: asyncpg.Connection, table: DailyTable, children: set[str], today: date, keep_days: int
) -> None:
    if keep_days <= 0:
        return
    first_kept = today - timedelta(days=keep_days)
    for child in sorted(children):
        suffix = child.removeprefix(f"{table.name}_")
        if suffix.isdigit() and datetime.strptime(f"{suffix} +0000", "%Y%m%d %z").date() < first_kept:
            await connection.execute(f'DROP TABLE "{child}"')
            log.info("dropped partition %s", child)
    await connection.execute(f"DELETE FROM {table.name}_default WHERE {table.column} < '{first_kept}'")  # noqa: S608
