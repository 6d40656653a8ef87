"""Running the checks on one snapshot of the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache

import asyncpg

from services.watchdog.checking.invariants import CHECKS, InvariantCheck

ROWS_PER_CHECK = 100


@dataclass(frozen=True)
class Violation:
    """One row that breaks an invariant."""

    invariant: str
    check: str
    task_id: int | None
    entity: str
    entity_id: int | None
    sentence: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.check}: {self.sentence}"


async def run_checks(
    connection: asyncpg.Connection,
    task_ids: Collection[int] | None = None,
    *,
    checks: Sequence[InvariantCheck] = CHECKS,
    rows_per_check: int = ROWS_PER_CHECK,
) -> list[Violation]:
    """Find what breaks an invariant now; empty if nothing does.

    Without `task_ids`: everything, at most `rows_per_check` rows of each check. With them: only what holds after every
    commit, for these tasks alone, in one round trip. Outside a transaction it opens a read-only one of its own, so that
    all queries see the same snapshot; inside one it trusts the caller's isolation.
    """
    async with AsyncExitStack() as stack:
        if not connection.is_in_transaction():
            await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
        if task_ids is not None:
            wanted = tuple(check for check in checks if check.at_every_commit)
            rows = await connection.fetch(together(wanted, rows_per_check), sorted(set(task_ids)))
            by_name = {check.name: check for check in wanted}
            return [_violation(by_name[row["check_name"]], row) for row in rows]
        every_task = await connection.fetchval("SELECT coalesce(array_agg(task_id), '{}') FROM tasks")
        found = []
        for check in checks:
            arguments = (every_task,) if check.by_task else ()
            limited = f"SELECT * FROM (\n{check.sql}\n) AS rows LIMIT {int(rows_per_check)}"  # noqa: S608 - our files
            found += [_violation(check, row) for row in await connection.fetch(limited, *arguments)]
        return found


@cache
def together(checks: tuple[InvariantCheck, ...], rows_per_check: int) -> str:
    """One statement of all checks; every one of them has the array of task ids as its only parameter."""
    return "\nUNION ALL\n".join(
        f"(SELECT '{check.name}' AS check_name, task_id, entity, entity_id, sentence"  # noqa: S608 - the text of our files
        f" FROM (\n{check.sql}\n) AS rows LIMIT {int(rows_per_check)})"
        for check in checks
    )


def _violation(check: InvariantCheck, row: asyncpg.Record) -> Violation:
    return Violation(
        invariant=check.invariant,
        check=check.name,
        task_id=row["task_id"],
        entity=row["entity"],
        entity_id=row["entity_id"],
        sentence=row["sentence"],
    )
