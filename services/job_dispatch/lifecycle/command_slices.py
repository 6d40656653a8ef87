"""Commands on the jobs of a task, worked off in slices: a few hundred jobs in each transaction.

A task may have a million jobs. In one transaction they would be locked for most of a minute; in slices nobody waits
for more than a moment, and a row in `command_progress` remembers what is left when a process ends in between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from services.job_dispatch.lifecycle.cap_room import CapRoom
from services.job_dispatch.lifecycle.transitions import move_jobs
from services.job_dispatch.policy.commands import Order, is_in_force, steps_of, takes_over
from services.job_dispatch.policy.reports import KILL_CODE, Blame
from services.job_dispatch.store import jobs as store
from services.job_dispatch.store.commands import SQL
from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork
from shared.states.task import TaskStatus

#: jobs in one transaction: as many as one event names
SLICE = 500
POLL_S = 1.0


@dataclass(frozen=True)
class CommandProgress:
    """A command that is not done: which of its steps is under way."""

    task_id: int
    order: Order
    step: int


class CommandSlices:
    """`begin` is called by the handler of the command; `work_off` runs beside it and does what is left."""

    def __init__(self, room: CapRoom, *, size: int = SLICE) -> None:
        self._room, self._size = room, size

    async def begin(self, work: UnitOfWork, task_id: int, order: Order) -> None:
        """Remember the command and take the first jobs.

        A weaker command that comes while a stronger one is under way changes nothing; the same one again goes on where
        it is.
        """
        task = (await store.task_facts(work.connection, [task_id])).get(task_id)
        if task is None or not is_in_force(order.command, task.status) or not steps_of(order.command, soft=order.soft):
            return
        found = await SQL.row(work.connection, "command_under_way", task_id=task_id)
        if found is None or takes_over(_progress(found).order, order, task.status):
            found = await SQL.row(
                work.connection, "begin_command", task_id=task_id, command=order.command, soft=order.soft
            )
        progress: CommandProgress | None = _progress(found)
        n_taken = 0
        while progress is not None and n_taken < self._size:
            taken, progress, waits = await self._advance(work, progress, task.status)
            n_taken += taken
            if waits:
                return

    async def slice(self, work: UnitOfWork) -> int | None:
        """Work off one slice of the oldest command: how many jobs it took; None if there is none."""
        found = await SQL.row(work.connection, "next_command")
        if found is None:
            return None
        progress = _progress(found)
        task = (await store.task_facts(work.connection, [progress.task_id])).get(progress.task_id)
        if task is None or not is_in_force(progress.order.command, task.status):
            await SQL.run(work.connection, "end_command", task_id=progress.task_id)
            return 0
        taken, _, _ = await self._advance(work, progress, task.status)
        return taken

    async def work_off(self, database: Database) -> None:
        """Work off commands slice by slice, each in its own transaction, until cancelled.

        Between two slices it waits as long as one takes, because others have work too.
        """
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            async with database.begin(reason="a command, slice by slice") as work:
                taken = await self.slice(work)
            await asyncio.sleep(loop.time() - began if taken else POLL_S)

    async def run_slice(self, work: UnitOfWork) -> None:
        """Work off one slice, for simulations, where nothing runs by itself."""
        await self.slice(work)

    async def _advance(
        self, work: UnitOfWork, progress: CommandProgress, task_status: TaskStatus
    ) -> tuple[int, CommandProgress | None, bool]:
        """Take the next jobs: how many, what is left to do, and whether others hold all that is left of this step."""
        steps = steps_of(progress.order.command, soft=progress.order.soft)
        step = steps[progress.step]
        wanted: dict[str, Any] = {
            "task_id": progress.task_id, "statuses": list(step.sources), "spared_types": list(step.spared),
        }  # fmt: skip
        room = await self._room.of_task(work, progress.task_id) if step.target == "activated" else None
        size = self._size if room is None else min(room, self._size)
        await SQL.value(work.connection, "plan_by_status")
        rows = await SQL.rows(work.connection, "take_jobs_of_task", size=size, **wanted)
        jobs = await store.lock_jobs(work.connection, [row["job_id"] for row in rows])
        blames = {job_id: Blame("user", KILL_CODE, step.reason) for job_id in jobs}
        moved = await move_jobs(work, jobs, sorted(jobs), step.target, reason=step.reason, blames=blames)
        waits, number = False, progress.step
        if size < self._size and len(rows) == size:
            number += 1  # the caps of the user or group hold the others: they let them go on one day
        elif len(rows) < self._size:
            waits = bool(await SQL.value(work.connection, "has_jobs_left", **wanted))
            number += 0 if waits else 1
        elif not moved:
            number += 1  # nothing of this step may move: it must not be tried for ever
        if number == len(steps):
            await SQL.run(work.connection, "end_command", task_id=progress.task_id)
            return len(moved), None, False
        await SQL.run(work.connection, "note_progress", task_id=progress.task_id, step=number, n_jobs=len(moved))
        return len(moved), CommandProgress(progress.task_id, progress.order, number), waits


def _progress(row: Any) -> CommandProgress:
    return CommandProgress(row["task_id"], Order(row["command"], row["soft"]), row["step"])
