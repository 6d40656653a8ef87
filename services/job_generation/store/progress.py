"""How far tasks are, many in one look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork
from shared.model.progress import failure_rate_percent, progress_percent
from shared.states.job import LIVE
from shared.states.task import TaskStatus
from shared.task.in_effect import BadRule, rules_of

SQL = Queries.beside(__file__)

#: live jobs are counted so far: who asks wants to know whether there are few
MOST_COUNTED = 1000


class Progress(NamedTuple):
    """A task with the counters of its masters.

    `is_quiet`: nothing follows before another of its jobs ends. `is_seen`: people see what is counted already,
    and nobody else goes by it: the task has no nucleus, and is not hurried near its end.
    """

    task_id: int
    status: TaskStatus
    files_finished: int
    files_failed: int
    files_total: int
    live_jobs: int
    is_quiet: bool
    is_seen: bool


async def progress(work: UnitOfWork, task_ids: Sequence[int]) -> list[Progress]:
    """Read how far these tasks are, without locks.

    Quiet is one that runs and has a job under way that is counted later, while all its input is taken: its jobs end no
    others, and no input is all processed.
    """
    rows = await SQL.rows(
        work.connection, "progress_of_tasks", task_ids=list(task_ids), live=list(LIVE), most=MOST_COUNTED
    )
    found = []
    for row in rows:
        may_be_quiet = row["status"] == "running" and row["live_jobs"] > 0 and not row["has_work"]
        is_quiet = may_be_quiet and _ends_no_others(row["split_rule"], row["event_service"])
        now = (
            progress_percent(row["files_total"], row["files_finished"]),
            failure_rate_percent(row["n_finished"], row["n_failed"]),
        )
        is_seen = row["is_told_alone"] and now == (row["progress"], row["failure_rate"])
        counted = (row["files_finished"], row["files_failed"], row["files_total"], row["live_jobs"])
        found.append(Progress(row["task_id"], row["status"], *counted, is_quiet, is_seen))
    return found


async def mark_dirty(work: UnitOfWork, task_ids: Sequence[int]) -> None:
    """Remember that ends of jobs of these tasks were counted, until they are settled."""
    await SQL.run(work.connection, "mark_dirty", task_ids=list(task_ids))


async def take_dirty(work: UnitOfWork, task_ids: Sequence[int]) -> None:
    """Note that these tasks are settled in this transaction, with what was counted until now."""
    await SQL.run(work.connection, "take_dirty", task_ids=list(task_ids))


async def left_dirty(work: UnitOfWork, older_than_s: float, count: int) -> list[int]:
    """Take tasks that nobody has settled for so long, to tell them again."""
    rows = await SQL.rows(work.connection, "left_dirty", older_than_s=older_than_s, count=count)
    return sorted({row["task_id"] for row in rows})


def _ends_no_others(split_rule: dict[str, object] | None, event_service: int) -> bool:
    try:
        return not rules_of(split_rule, event_service=event_service).jobs_end_others
    except BadRule:
        return False
