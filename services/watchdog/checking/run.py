"""Runs the checks: of some tasks, or of all in slices, each of which sees its own moment.

What the checks demand holds at every commit, so that no two statements have to see the same one, and a snapshot that
is old keeps dead rows in every hot table.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache

import asyncpg

from services.watchdog.checking.invariants import CHECKS, InvariantCheck

ROWS_PER_CHECK = 100
#: no statement, and so no snapshot, is older
LONGEST_S = 60.0
#: tasks that are checked together: the first slice, and the most; seconds that are few and many for a slice
FIRST_TASKS, MOST_TASKS = 100, 2000
FEW_SECONDS, MANY_SECONDS = 1.0, 5.0


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

    Without `task_ids`: everything, in slices, at most `rows_per_check` rows of each check. With them: only what holds
    after every commit, for these tasks alone, in one round trip and one snapshot, or the caller's.
    """
    if task_ids is None:
        slices = TaskSlices(checks=checks, rows_per_check=rows_per_check)
        found = await general_checks(connection, checks=checks, rows_per_check=rows_per_check)
        return found + await slices.run(connection)
    async with AsyncExitStack() as stack:
        if not connection.is_in_transaction():
            await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
        wanted = tuple(check for check in checks if check.at_every_commit)
        rows = await connection.fetch(together(wanted, rows_per_check), sorted(set(task_ids)))
        by_name = {check.name: check for check in wanted}
        return [_violation(by_name[row["check_name"]], row) for row in rows]


async def general_checks(
    connection: asyncpg.Connection,
    *,
    checks: Sequence[InvariantCheck] = CHECKS,
    rows_per_check: int = ROWS_PER_CHECK,
) -> list[Violation]:
    """Run the checks that are about no task, each by itself.

    One that takes too long is told, and stops no other.
    """
    found = list[Violation]()
    for check in checks:
        if check.by_task:
            continue
        try:
            rows = await connection.fetch(_limited(check, rows_per_check), timeout=LONGEST_S)
        except TimeoutError:
            if connection.is_in_transaction():
                raise
            found.append(_unchecked(check, None))
        else:
            found += [_violation(check, row) for row in rows]
    return found


@dataclass
class TaskSlices:
    """A walk through all tasks by id, with the checks that are about tasks.

    `after`: the last task that was checked. `is_over`: there are no more.
    """

    after: int = 0
    checks: Sequence[InvariantCheck] = CHECKS
    rows_per_check: int = ROWS_PER_CHECK
    is_over: bool = False
    _n_tasks: int = FIRST_TASKS
    _n_found: Counter[str] = field(default_factory=Counter)

    async def run(self, connection: asyncpg.Connection, most_s: float = float("inf")) -> list[Violation]:
        """Check slice by slice, for so long or to the end."""
        until, found = time.monotonic() + most_s, list[Violation]()
        while not self.is_over:
            found += await self._slice(connection)
            if time.monotonic() > until:
                break
        return found

    async def _slice(self, connection: asyncpg.Connection) -> list[Violation]:
        started = time.monotonic()
        rows = await connection.fetch(
            "SELECT task_id FROM tasks WHERE task_id > $1 ORDER BY task_id LIMIT $2", self.after, self._n_tasks
        )
        task_ids, found = [row["task_id"] for row in rows], list[Violation]()
        for check in self.checks if task_ids else ():
            most = self.rows_per_check - self._n_found[check.name]
            if not check.by_task or most <= 0:
                continue
            try:
                broken = await connection.fetch(_limited(check, most), task_ids, timeout=LONGEST_S)
            except TimeoutError:
                if connection.is_in_transaction():
                    raise
                if len(task_ids) > 1:
                    self._n_tasks = max(1, len(task_ids) // 10)
                    return []
                found.append(_unchecked(check, task_ids[0]))
            else:
                found += [_violation(check, row) for row in broken]
        self._n_found.update(one.check for one in found)
        self.is_over, self.after = len(task_ids) < self._n_tasks, task_ids[-1] if task_ids else self.after
        seconds = time.monotonic() - started
        if seconds > MANY_SECONDS:
            self._n_tasks = max(1, self._n_tasks // 2)
        elif seconds < FEW_SECONDS:
            self._n_tasks = min(2 * self._n_tasks, MOST_TASKS)
        return found


def _limited(check: InvariantCheck, most: int) -> str:
    return f"SELECT * FROM (\n{check.sql}\n) AS rows LIMIT {int(most)}"  # noqa: S608 - our files


@cache
def together(checks: tuple[InvariantCheck, ...], rows_per_check: int) -> str:
    """One statement of all checks; every one of them has the array of task ids as its only parameter."""
    return "\nUNION ALL\n".join(
        f"(SELECT '{check.name}' AS check_name, task_id, entity, entity_id, sentence"  # noqa: S608 - the text of our files
        f" FROM (\n{check.sql}\n) AS rows LIMIT {int(rows_per_check)})"
        for check in checks
    )


def _unchecked(check: InvariantCheck, task_id: int | None) -> Violation:
    """A check that took too long: nobody knows whether it holds."""
    sentence = f"was not checked: that took more than {LONGEST_S:g} s"
    return Violation(check.invariant, check.name, task_id, "check", None, sentence)


def _violation(check: InvariantCheck, row: asyncpg.Record) -> Violation:
    return Violation(
        invariant=check.invariant,
        check=check.name,
        task_id=row["task_id"],
        entity=row["entity"],
        entity_id=row["entity_id"],
        sentence=row["sentence"],
    )
