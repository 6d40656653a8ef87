"""The rows of `waits`; everything happens in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import asyncpg

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.waits.causes import Causes

SQL = Queries.beside(__file__)
Kind = Literal["queue", "nucleus", "share"]
#: states in which a task may wait for it: merges also where no other jobs are made
STATES: Mapping[Kind, tuple[str, ...]] = {
    "queue": (
        "pending",
        "ready",
        "scouting",
        "scouted",
        "running",
        "prepared",
        "finishing",
        "throttled",
        "exhausted",
        "topreprocess",
        "preprocessing",
    ),
    "nucleus": ("assigning",),
    # pending: a chunk that was offered before the share had enough found no queue, and the rest waits for the share
    "share": ("ready", "scouting", "running", "pending"),
}
#: after a wake that placed nothing: so long, and twice as long after each further one
BACK_OFF_S, LONGEST_BACK_OFF_S = 5.0, 300.0


class Part(NamedTuple):
    """What waits of a task by itself: `part` of a kind of `work`, or the task as a whole.

    Example: (7, "merge", "BNL_PROD_UCORE"), the merges of task 7 at that queue.
    """

    task_id: int
    work: str = "task"
    part: str = ""


@dataclass(frozen=True)
class Wake:
    """What to wake: `cause` for metrics and reasons, `woken_for`: the queue row whose room it takes."""

    key: Part
    wake_nr: int
    cause: str
    room_since: datetime
    woken_for: str | None = None


@dataclass(frozen=True)
class Placed:
    """A woken task that was placed, `waited_s` after there was room."""

    cause: str
    waited_s: float


async def note_wait(
    work: UnitOfWork,
    kind: Kind,
    task_id: int,
    causes: Causes,
    retry_at: datetime,
    *,
    n_jobs: int = 1,
    decision_id: int | None = None,
    chunk_id: int | None = None,
    part: tuple[str, str] | None = None,
    world_version: int = 0,
    config_version: int = 0,
) -> str | None:
    """A part of a task waits; the cause of the wake that brought it here for nothing, if any.

    `part`: (work, part) where it is not that of the chunk.
    """
    named = (None, None) if part is None else part
    row = await SQL.row(
        work.connection,
        "note_wait",
        task_id=task_id,
        kind=kind,
        decision_id=decision_id,
        chunk_id=chunk_id,
        work=named[0],
        part=named[1],
        n_jobs=n_jobs,
        causes=causes.packed(),
        world_version=world_version,
        config_version=max(0, config_version),
        retry_at=retry_at,
        shortest_s=BACK_OFF_S,
        longest_s=LONGEST_BACK_OFF_S,
    )
    return None if row is None else row["woken_by"]


async def note_placed(
    work: UnitOfWork, kind: Kind, task_id: int, chunk_id: int | None = None, *, part: tuple[str, str] | None = None
) -> Placed | None:
    """A part of a task was placed; how long after there was room, if it was woken.

    `part`: (work, part) where it is not that of the chunk.
    """
    named = (None, None) if part is None else part
    row = await SQL.row(
        work.connection, "note_placed", kind=kind, task_id=task_id, chunk_id=chunk_id, work=named[0], part=named[1]
    )
    return None if row is None else Placed(row["woken_by"], row["waited_s"])


async def wake_tasks(work: UnitOfWork, kind: Kind, wakes: Sequence[Wake]) -> set[Part]:
    """Compare-and-set; those that were still waiting."""
    rows = await SQL.rows(
        work.connection,
        "wake_tasks",
        kind=kind,
        statuses=list(STATES[kind]),
        task_ids=[one.key.task_id for one in wakes],
        works=[one.key.work for one in wakes],
        parts=[one.key.part for one in wakes],
        wake_nrs=[one.wake_nr for one in wakes],
        causes=[one.cause for one in wakes],
        woken_for=[one.woken_for for one in wakes],
        room_since=[one.room_since for one in wakes],
    )
    return {Part(*row) for row in rows}


async def not_told_yet(work: UnitOfWork, kind: Kind, wakes: Sequence[Wake]) -> set[Part]:
    """Of what could not be woken: that of which the chunk is not given back yet.

    They can be woken a moment later.
    """
    rows = await SQL.rows(
        work.connection,
        "not_told_yet",
        kind=kind,
        statuses=list(STATES[kind]),
        task_ids=[one.key.task_id for one in wakes],
        works=[one.key.work for one in wakes],
        parts=[one.key.part for one in wakes],
        wake_nrs=[one.wake_nr for one in wakes],
    )
    return {Part(*row) for row in rows}


async def forget_waits(connection: asyncpg.Connection, kind: Kind) -> None:
    """Periodic: rows of tasks that went on."""
    await SQL.run(connection, "forget_waits", kind=kind)
