"""Units of input that a command opens again, slice by slice, and how far each command is.

Each function runs in the caller's transaction, with the task's row locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states import FILE, Owner
from shared.states.file import FileStatus
from shared.states.task import TaskStatus

SQL = Queries.beside(__file__)
#: units in one transaction: as many as one line of the log names
SLICE = 10_000
Kind = Literal["retry", "read_again", "live"]
_SOURCES = frozenset(FILE.sources("ready", Owner.TASK_DEFINITION))


@dataclass(frozen=True)
class ReopenStep:
    """Units in one state become ready with `more` attempts.

    Without a status: all that may still be tried get more.
    """

    status: FileStatus | None
    more: int


@dataclass(frozen=True)
class Reopening:
    """A command that opens input again, and where its last slice ended.

    `came_from`: the state of the task before it. `last_file_id`: units that came later are no part of it. `n_left`:
    units that were not done when it began.
    """

    task_id: int
    kind: Kind
    came_from: TaskStatus
    verb: str
    details: dict[str, Any]
    reason: str
    by_production: bool
    steps: tuple[ReopenStep, ...]
    last_file_id: int
    n_left: int = 0
    n_reopened: int = 0
    position: dict[str, Any] = field(default_factory=dict)
    reopening_id: int | None = None


async def last_unit(work: UnitOfWork, task_id: int) -> int:
    return int(await SQL.value(work.connection, "last_unit", task_id=task_id))


async def next_in_turn(work: UnitOfWork) -> Reopening | None:
    """Find the command whose turn it is."""
    row = await SQL.row(work.connection, "next_reopening")
    if row is None:
        return None
    steps = tuple(ReopenStep(**one) for one in row["steps"])
    return Reopening(**{**dict(row), "steps": steps, "position": row["position"] or {}})


async def keep(work: UnitOfWork, reopening: Reopening) -> None:
    """Leave the rest of a command to later slices."""
    if reopening.reopening_id is None:
        wanted = {**vars(reopening), "steps": [vars(one) for one in reopening.steps]}
        del wanted["reopening_id"]
        await SQL.run(work.connection, "keep_reopening", **wanted)
        return
    await SQL.run(
        work.connection,
        "note_position",
        reopening_id=reopening.reopening_id,
        position=reopening.position,
        n_reopened=reopening.n_reopened,
    )


async def end(work: UnitOfWork, reopening: Reopening) -> None:
    if reopening.reopening_id is not None:
        await SQL.run(work.connection, "end_reopening", reopening_id=reopening.reopening_id)


async def say(work: UnitOfWork, task_id: int, said: str) -> None:
    await SQL.run(work.connection, "say_progress", task_id=task_id, said=said)


async def advance(work: UnitOfWork, reopening: Reopening, size: int) -> tuple[Reopening, bool]:
    """Open one slice of at most so many units: how far it is then, and whether anything may be left."""
    room = size
    places = await _places(work, reopening)
    for place in places[reopening.position.get("place", 0) :]:
        step, dataset_id, number = place
        position = reopening.position if reopening.position.get("place") == number else {"place": number}
        take = _reopen if step.status is not None else _raise
        n_looked_at, reopened, position = await take(work, reopening, step, dataset_id, position, room)
        reopening = replace(reopening, n_reopened=reopening.n_reopened + reopened, position=position)
        room -= n_looked_at
        if room <= 0:
            return reopening, True
    return reopening, False


async def _places(work: UnitOfWork, reopening: Reopening) -> Sequence[tuple[ReopenStep, int, int]]:
    """Each step in each dataset, numbered; datasets do not change while a command opens them."""
    rows = await SQL.rows(work.connection, "inputs_of_task", task_id=reopening.task_id)
    ids = [row["dataset_id"] for row in rows]
    pairs = [(step, dataset_id) for step in reopening.steps for dataset_id in ids]
    return [(step, dataset_id, number) for number, (step, dataset_id) in enumerate(pairs)]


async def _reopen(
    work: UnitOfWork, reopening: Reopening, step: ReopenStep, dataset_id: int, position: dict[str, Any], size: int
) -> tuple[int, int, dict[str, Any]]:
    """Those of one dataset in one state. Failed units were counted as used and failed, others as neither."""
    assert step.status in _SOURCES
    rows = await SQL.rows(
        work.connection,
        "reopen_units",
        timeout_s=600,
        dataset_id=dataset_id,
        status=step.status,
        after_id=position.get("after_id", 0),
        last_file_id=reopening.last_file_id,
        size=size,
        more=step.more,
    )
    ids = sorted(row["file_id"] for row in rows)
    await _log(work, reopening, dataset_id, ids, step.status, sum(row["n_events"] for row in rows))
    return len(ids), len(ids), {**position, "after_id": ids[-1]} if ids else position


async def _raise(
    work: UnitOfWork, reopening: Reopening, step: ReopenStep, dataset_id: int, position: dict[str, Any], size: int
) -> tuple[int, int, dict[str, Any]]:
    """More attempts for those of one dataset, whatever they are doing."""
    row = await SQL.row(
        work.connection,
        "raise_attempts",
        timeout_s=600,
        dataset_id=dataset_id,
        after_lfn=position.get("lfn", ""),
        after_event=position.get("event", -2),
        last_file_id=reopening.last_file_id,
        size=size,
        more=step.more,
    )
    if row is None:
        return 0, 0, position
    await _log(work, reopening, dataset_id, row["reopened"], "failed", row["n_events"])
    position = {**position, "lfn": row["last_lfn"], "event": row["last_event"]}
    return row["n_looked_at"], len(row["reopened"]), position


async def _log(
    work: UnitOfWork, reopening: Reopening, dataset_id: int, ids: Sequence[int], from_status: FileStatus, n_events: int
) -> None:
    """The log and the counters of units that are ready again."""
    if not ids:
        return
    await work.log_files(
        entity="file",
        task_id=reopening.task_id,
        ids=ids,
        from_status=from_status,
        to_status="ready",
        reason=reopening.reason,
    )
    if from_status == "failed":
        await SQL.run(work.connection, "count_reopened", dataset_id=dataset_id, n_failed=len(ids), n_events=n_events)
