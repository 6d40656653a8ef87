"""Looks at the input of live tasks again, until STATECHECKEXPIRATION (JEDI: The JEDI_Datasets table).

Only what the catalogue changed since it was read is compared; a task that waits for its input goes on at once, and one
whose input is being staged refines again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

import asyncpg

from services.task_definition.data.wishing import Wishes
from services.task_definition.parameters import CLOSED_DATASET_CHECK_S, GROWN_DATASET_CHECK_S, OPEN_DATASET_CHECK_S
from services.task_definition.tasks.announcing import staged
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.checks import SQL
from services.task_definition.tasks.store.tasks import TaskRow
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.states.task import TaskStatus

#: datasets that are looked at in one transaction, and tasks whose input is begun to be read again in it
CHECKED_AT_MOST, BEGUN_AT_MOST = 1000, 20
#: tasks that use their input, or will: what changes of it is read at once
USING: frozenset[TaskStatus] = frozenset({"assigning", "ready", "scouting", "scouted", "running", "throttled"})
#: a pending task in whose way its input may be
WAITING_FOR_INPUT: frozenset[TaskStatus | None] = frozenset({"registered", "rerefine", "staged", "defined"})


class ReadAgain(Protocol):
    """Begins to read the input of a task again, whose row is held."""

    async def __call__(self, work: UnitOfWork, task: TaskRow) -> None: ...


class InputChecks:
    """`look` is done periodically; `lose_closed` begins to give up what a held task may not read any more."""

    def __init__(self, parameters: Parameters, read_again: ReadAgain, wishes: Wishes, lose_closed: ReadAgain) -> None:
        self._parameters, self._read_again = parameters, read_again
        self._wishes, self._lose_closed = wishes, lose_closed

    async def look(self, work: UnitOfWork) -> bool:
        """What is due, once; whether there is more."""
        due = await SQL.rows(
            work.connection,
            "due_checks",
            soon_s=self._parameters.read(GROWN_DATASET_CHECK_S),
            open_s=self._parameters.read(OPEN_DATASET_CHECK_S),
            closed_s=self._parameters.read(CLOSED_DATASET_CHECK_S),
            at_most=CHECKED_AT_MOST,
        )
        await self._wishes.read_again(work, [dict(row) for row in due if not row["is_over"]])
        changed = defaultdict(list)
        for row in due:
            if (row["has_changed"] or row["has_new_parts"]) and not row["is_over"]:
                changed[row["task_id"]].append(row)
        now = sorted(list(changed)[:BEGUN_AT_MOST])  # what waited longest; rows are locked in one order
        for task_id in now:
            await self._look_at_task(work, task_id)
        later = changed.keys() - set(now)
        await self._seen(work.connection, [row for row in due if row["task_id"] not in later])
        return len(changed) > BEGUN_AT_MOST

    async def _look_at_task(self, work: UnitOfWork, task_id: int) -> None:
        """A task of which some input changed; one that somebody else has now is looked at in its next turn."""
        if await store_readings.try_lock_task(work, task_id) is None:
            return
        task = await store.lock(work, task_id)
        assert task is not None
        if task.status == "pending" and task.old_status in WAITING_FOR_INPUT:
            await store.release_now(work, task_id)
        elif task.status == "staging":
            await staged(work, task_id, "the catalogue changed what it has of the input")
        elif await store_readings.state(work, task_id) is not None:
            return
        elif task.status in USING:
            await self._read_again(work, task)
        elif task.status == "paused":
            await self._lose_closed(work, task)

    async def _seen(self, connection: asyncpg.Connection, rows: list[asyncpg.Record]) -> None:
        if rows:
            over = [row["dataset_id"] for row in rows if row["is_over"]]
            await SQL.run(connection, "checked", dataset_ids=[row["dataset_id"] for row in rows], over=over)
