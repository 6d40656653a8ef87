"""SQL of the audit of counters: how far it is, which counters differ, and their correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from services.job_generation.store import counters
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.file import FileStatus

SQL = Queries.beside(__file__)

#: datasets of live tasks, of tasks that ended, and job sets that are worked on
DATASETS, ENDED, JOB_SETS = "datasets", "ended_datasets", "job_sets"
#: of contents in one slice: files, or ranges of events
MOST_ROWS, MOST_CONTENTS = 500, 20_000
FILE_STATES: tuple[FileStatus, ...] = get_args(FileStatus)


@dataclass(frozen=True)
class Position:
    """How far a kind is: the last that was compared, of this task.

    `at`: when the task ended; `began_at`: when the round began.
    """

    began_at: datetime | None
    at: datetime
    task_id: int
    id: int


@dataclass(frozen=True)
class Compared:
    """A dataset or job set that is to be compared, or none of its task."""

    task_id: int
    at: datetime | None
    id: int | None
    n_contents: int
    said: tuple[int, ...] | None


@dataclass(frozen=True)
class Large:
    """A dataset that is counted in parts.

    `said`: files used, finished and failed by its counters when that began; `counts`: those counted, by state.
    """

    dataset_id: int
    task_id: int
    said: tuple[int, ...]
    counts: Mapping[FileStatus, int]
    after_file_id: int
    is_suspect: bool
    tried_at: datetime | None


@dataclass(frozen=True)
class Difference:
    """Counters that are not what the contents say, in the order of `correct`."""

    task_id: int
    id: int
    counted: tuple[int | None, ...]
    found: tuple[int | None, ...]


async def position(work: UnitOfWork, kind: str) -> Position:
    """Take the turn of this kind: after which it goes on."""
    row = await SQL.one(work.connection, "position", kind=kind)
    return Position(row["began_at"], row["after_at"], row["after_task"], row["after_id"])


async def move_on(work: UnitOfWork, kind: str, to: Position) -> None:
    await SQL.run(
        work.connection, "move_on", kind=kind, began_at=to.began_at, after_at=to.at, after_task=to.task_id,
        after_id=to.id,
    )  # fmt: skip


async def next_rows(work: UnitOfWork, kind: str, after: Position) -> list[Compared]:
    """Read the next datasets or job sets by task."""
    statement = {DATASETS: "next_datasets", ENDED: "next_ended_datasets", JOB_SETS: "next_job_sets"}[kind]
    given: dict[str, Any] = {"at": after.at, "task_id": after.task_id, "id": after.id, "most": MOST_ROWS}
    wanted = {name: given[name] for name in SQL.parameters(statement)}
    return [
        Compared(row["task_id"], row["at"], row["id"], row["n_contents"], row["said"] and tuple(row["said"]))
        for row in await SQL.rows(work.connection, statement, **wanted)
    ]


async def differences(
    work: UnitOfWork, kind: str, ids: Sequence[int], *, timeout_s: float | None = None
) -> list[Difference]:
    """Read which of these differ, at one moment."""
    if not ids:
        return []
    statement = "set_differences" if kind == JOB_SETS else "counter_differences"
    rows = await SQL.rows(work.connection, statement, timeout_s=timeout_s, ids=list(ids))
    return [Difference(row["task_id"], row["id"], tuple(row["counted"]), tuple(row["found"])) for row in rows]


async def note_large(work: UnitOfWork, rows: Sequence[Compared]) -> None:
    """Have these datasets counted in parts."""
    for one in rows:
        await SQL.run(work.connection, "note_large", dataset_id=one.id, task_id=one.task_id, said=list(one.said or ()))


async def next_large(work: UnitOfWork) -> Large | None:
    """Read which dataset is counted in parts next, and how far it is."""
    row = await SQL.row(work.connection, "next_large")
    return None if row is None else Large(**dict(row) | {"said": tuple(row["said"])})


async def count_part(
    work: UnitOfWork, dataset_id: int, after_file_id: int, most: int
) -> tuple[dict[FileStatus, int], int | None]:
    """Count the next files of a dataset by state; the last of them, if there are more."""
    rows = await SQL.rows(
        work.connection, "count_part", dataset_id=dataset_id, after_file_id=after_file_id, statuses=list(FILE_STATES),
        most=most,
    )  # fmt: skip
    return {row["status"]: row["n_files"] for row in rows}, rows[0]["upto"] if rows else None


async def note_part(work: UnitOfWork, dataset_id: int, counts: Mapping[FileStatus, int], after_file_id: int) -> None:
    await SQL.run(work.connection, "note_part", dataset_id=dataset_id, counts=dict(counts), after_file_id=after_file_id)


async def suspect(work: UnitOfWork, dataset_id: int, counts: Mapping[FileStatus, int]) -> None:
    """Have a dataset counted as a whole: its parts are not what its counters say."""
    await SQL.run(work.connection, "suspect", dataset_id=dataset_id, counts=dict(counts))


async def try_whole(work: UnitOfWork, dataset_id: int) -> None:
    """Note that a dataset is counted as a whole, before that is done: once only."""
    await SQL.run(work.connection, "try_whole", dataset_id=dataset_id)


async def forget_large(work: UnitOfWork, dataset_id: int) -> None:
    await SQL.run(work.connection, "forget_large", dataset_id=dataset_id)


async def counters_of(work: UnitOfWork, dataset_id: int) -> tuple[int, ...] | None:
    """Read how many files of a dataset its counters call used, finished and failed; None if it is gone."""
    found = await SQL.value(work.connection, "counters_of", dataset_id=dataset_id)
    return None if found is None else tuple(found)


async def hold(work: UnitOfWork, kind: str, suspects: Sequence[Difference]) -> None:
    """Hold them until the commit, in order of id: nobody counts them meanwhile."""
    if kind == JOB_SETS:
        await SQL.rows(work.connection, "lock_sets", ids=[one.id for one in suspects])
    else:
        await counters.lock_datasets(work, {one.task_id for one in suspects})


async def correct(work: UnitOfWork, kind: str, wrong: Sequence[Difference]) -> None:
    """Have the counters say what the contents do."""
    columns = [list(column) for column in zip(*(one.found for one in wrong), strict=True)]
    ids = [one.id for one in wrong]
    if kind == JOB_SETS:
        names = ("ready", "exhausted", "processing", "finished", "done", "merged", "fatal")
        await SQL.run(work.connection, "correct_sets", ids=ids, **dict[str, Any](zip(names, columns, strict=True)))
    else:
        counts = zip(("used", "finished", "failed", "on_hold", "waiting", "events"), columns, strict=True)
        await SQL.run(work.connection, "correct_counters", ids=ids, **dict[str, Any](counts))
