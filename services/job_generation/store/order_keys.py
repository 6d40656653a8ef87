"""Order keys of jobs: what their order depends on, one row for all jobs that agree in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.order.identity import SETS, OrderFacts
from shared.states.job import QUEUED, JobStatus
from shared.task.in_effect import SplitRules, rules_of

SQL = Queries.beside(__file__)


class KeySweep(NamedTuple):
    """A VO whose jobs get their keys again."""

    vo: str
    passes_left: int
    after_task_id: int


class SweptTask(NamedTuple):
    """A task that a sweep comes to; `is_waiting`: its jobs may wait."""

    task_id: int
    vo: str
    is_waiting: bool


@dataclass(frozen=True)
class TaskOfGroup:
    """What the order of a task's jobs depends on."""

    vo: str | None
    user_name: str
    gshare: str
    working_group: str | None
    architecture: str | None
    processing_type: str | None
    parameters: Mapping[str, Any]
    rules: SplitRules


@dataclass(frozen=True)
class WaitingGroup:
    """Waiting jobs of a task that have one key."""

    task_id: int
    task: TaskOfGroup
    shape_id: int
    walltime_s: int
    job_type: str


class RekeyedJob(NamedTuple):
    """A job with the key that it had before."""

    job_id: int
    status: JobStatus
    queue: str
    gshare: str
    shape_id: int
    priority: int
    order_key_id: int


async def intern(work: UnitOfWork, wanted: Collection[OrderFacts]) -> Mapping[OrderFacts, int]:
    """Read the ids of these order keys, made where they are new.

    Nothing is remembered: an empty task queue is deleted after a while. One that was used within a minute is not
    touched, so that transactions for one task queue do not wait for each other.
    """
    if not wanted:
        return {}
    queues = {queue.digest: queue for queue, _ in wanted}
    ordered = [queues[digest] for digest in sorted(queues)]
    digests = [one.digest for one in ordered]
    await SQL.run(work.connection, "use_task_queues", identities=digests)
    await SQL.run(
        work.connection,
        "add_task_queues",
        identities=digests,
        vos=[one.vo for one in ordered],
        user_names=[one.user_name for one in ordered],
        user_groups=[one.user_group for one in ordered],
        cpu_segments_s=[one.cpu_segment_s for one in ordered],
        sets=[{name: getattr(one, name) for name in SETS} for one in ordered],
    )
    keys = sorted({(queue.digest, user_priority) for queue, user_priority in wanted})
    columns: dict[str, Any] = {"identities": [one for one, _ in keys], "user_priorities": [one for _, one in keys]}
    await SQL.run(work.connection, "add_order_keys", **columns)
    rows = await SQL.rows(work.connection, "order_keys_of", **columns)
    return {(queues[row["identity"]], row["user_priority"]): row["order_key_id"] for row in rows}


async def note_task(work: UnitOfWork, task_id: int) -> None:
    """Note that waiting jobs of the task get their keys again."""
    await SQL.run(work.connection, "note_task", task_id=task_id)


async def next_task(work: UnitOfWork) -> int | None:
    """Lock the next task whose jobs get their keys again."""
    found: int | None = await SQL.value(work.connection, "next_task")
    return found


async def forget_task(work: UnitOfWork, task_id: int) -> None:
    """Forget a task whose jobs have their keys."""
    await SQL.run(work.connection, "forget_task", task_id=task_id)


async def known_vos(work: UnitOfWork) -> list[str]:
    """Read the VOs that ever had jobs; "" of jobs without one."""
    return [row["vo"] for row in await SQL.rows(work.connection, "known_vos")]


async def sweeps(work: UnitOfWork) -> dict[str, str]:
    """The configuration, in words, by which the jobs of each VO have their keys or are being given them."""
    return {row["vo"]: row["wanted"] for row in await SQL.rows(work.connection, "sweeps")}


async def begin_sweep(work: UnitOfWork, vo: str, wanted: str, passes: int) -> None:
    """Begin a pass over a VO whose configuration has changed."""
    await SQL.run(work.connection, "begin_sweep", vo=vo, wanted=wanted, passes=passes)


async def due_sweep(work: UnitOfWork) -> KeySweep | None:
    """One that has a pass to make, locked."""
    row = await SQL.row(work.connection, "due_sweep")
    return None if row is None else KeySweep(*row)


async def go_on(work: UnitOfWork, sweep: KeySweep, *, after_task_id: int) -> None:
    """Store how far the pass of a VO came."""
    await SQL.run(work.connection, "go_on", vo=sweep.vo, after_task_id=after_task_id)


async def end_pass(work: UnitOfWork, sweep: KeySweep, next_at: datetime) -> None:
    """End a pass; another one begins then, if it was not the last."""
    await SQL.run(work.connection, "end_pass", vo=sweep.vo, due_at=next_at)


async def tasks_after(work: UnitOfWork, after_task_id: int, size: int) -> list[SweptTask]:
    """Read the next tasks by id."""
    rows = await SQL.rows(work.connection, "tasks_after", after_task_id=after_task_id, size=size)
    return [SweptTask(*row) for row in rows]


async def waiting_groups(work: UnitOfWork, task_ids: Sequence[int]) -> list[WaitingGroup]:
    """Read the waiting jobs of tasks by what their keys depend on, in the order of the tasks."""
    if not task_ids:
        return []
    await SQL.value(work.connection, "plan_by_index")
    rows = await SQL.rows(work.connection, "waiting_groups", task_ids=list(task_ids), statuses=list(QUEUED))
    return [
        WaitingGroup(
            row["task_id"],
            task_of_group(row),
            row["shape_id"],
            row["walltime_s"],
            row["job_type"],
        )
        for row in rows
    ]


def task_of_group(row: asyncpg.Record) -> TaskOfGroup:
    """Read a row as the task that the order of its jobs depends on."""
    columns = {name: row[name] for name in TaskOfGroup.__dataclass_fields__ if name != "rules"}
    return TaskOfGroup(**columns, rules=rules_of(row["split_rule"]))


async def rekey(work: UnitOfWork, group: WaitingGroup, order_key_id: int, most: int) -> list[RekeyedJob]:
    """Give waiting jobs of a group this key, so many at most; those that had another one, by id."""
    rows = await SQL.rows(
        work.connection,
        "rekey",
        task_id=group.task_id,
        shape_id=group.shape_id,
        job_type=group.job_type,
        order_key_id=order_key_id,
        statuses=list(QUEUED),
        size=most,
    )
    return [RekeyedJob(*row) for row in rows]
