"""SQL of the audit of counters: how far it is, which counters differ, and their correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.job_generation.store import counters
from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.states.file import FileStatus

SQL = Queries.beside(__file__)

DATASETS, JOB_SETS = "datasets", "job_sets"
#: of contents in one slice: files, or ranges of events
MOST_ROWS, MOST_CONTENTS = 500, 20_000


@dataclass(frozen=True)
class Difference:
    """Counters that are not what the contents say, in the order of `correct`."""

    task_id: int
    id: int
    counted: tuple[int | None, ...]
    found: tuple[int | None, ...]


async def position(work: UnitOfWork, kind: str) -> tuple[int, dict[str, Any] | None]:
    """Take the turn of this kind: after which id it goes on, and what was counted in parts."""
    row = await SQL.one(work.connection, "position", kind=kind)
    return row["after_id"], row["parts"]


async def move_on(work: UnitOfWork, kind: str, after: int, parts: dict[str, Any] | None = None) -> None:
    await SQL.run(work.connection, "move_on", kind=kind, after_id=after, parts=parts)


async def next_rows(work: UnitOfWork, kind: str, after: int) -> list[Any]:
    """Read the next datasets or job sets by id."""
    if kind == DATASETS:
        return await SQL.rows(work.connection, "next_datasets", after=after, most=MOST_ROWS)
    return await SQL.rows(work.connection, "next_job_sets", after=after, most=MOST_ROWS)


async def differences(work: UnitOfWork, kind: str, ids: Sequence[int]) -> list[Difference]:
    """Read which of these differ, at one moment."""
    if not ids:
        return []
    if kind == DATASETS:
        rows = await SQL.rows(work.connection, "counter_differences", ids=list(ids))
    else:
        rows = await SQL.rows(work.connection, "set_differences", ids=list(ids))
    return [Difference(row["task_id"], row["id"], tuple(row["counted"]), tuple(row["found"])) for row in rows]


async def count_part(
    work: UnitOfWork, dataset_id: int, after: tuple[str, int], most: int
) -> list[tuple[FileStatus, int, int]]:
    """Count the next files of a dataset, after one by state and id: by state how many, and the last."""
    rows = await SQL.rows(
        work.connection, "count_part", dataset_id=dataset_id, status=after[0], file_id=after[1], most=most
    )
    return [(row["status"], row["n_files"], row["file_id"]) for row in rows]


async def hold(work: UnitOfWork, kind: str, suspects: Sequence[Difference]) -> None:
    """Hold them until the commit, in order of id: nobody counts them meanwhile."""
    if kind == DATASETS:
        await counters.lock_datasets(work, {one.task_id for one in suspects})
    else:
        await SQL.rows(work.connection, "lock_sets", ids=[one.id for one in suspects])


async def correct(work: UnitOfWork, kind: str, wrong: Sequence[Difference]) -> None:
    """Have the counters say what the contents do."""
    columns = [list(column) for column in zip(*(one.found for one in wrong), strict=True)]
    ids = [one.id for one in wrong]
    if kind == DATASETS:
        counts = zip(("used", "finished", "failed", "on_hold", "waiting", "events"), columns, strict=True)
        await SQL.run(work.connection, "correct_counters", ids=ids, **dict[str, Any](counts))
    else:
        names = ("ready", "exhausted", "processing", "finished", "done", "merged", "fatal")
        await SQL.run(work.connection, "correct_sets", ids=ids, **dict[str, Any](zip(names, columns, strict=True)))
