"""Tasks that are wanted by a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from services.watchdog.policy.punctuality import Ended, WantedTask
from shared.db.queries import Queries
from shared.states.task import FINAL
from shared.task.expected_end import End

SQL = Queries.beside(__file__)


async def due(connection: asyncpg.Connection, most: int) -> list[WantedTask]:
    """Read the tasks of which the end is to be worked out now."""
    return [
        WantedTask(
            task_id=row["task_id"],
            status=row["status"],
            label=row["prod_source_label"] or "",
            priority=row["current_priority"],
            due_at=row["due_at"],
            created_at=row["creation_date"],
            started_at=row["start_time"],
            n_units=row["n_units"],
            n_ended=row["n_ended"],
            older=_ended(row["older_at"], row["older_n"]),
            newer=_ended(row["newer_at"], row["newer_n"]),
        )
        for row in await SQL.rows(connection, "due_deadlines", most=most, ended=sorted(FINAL))
    ]


async def forget(connection: asyncpg.Connection, most: int) -> int:
    """Drop those of tasks that have ended, among so many that are due; how many they were."""
    return len(await SQL.rows(connection, "forget_deadlines", most=most, ended=sorted(FINAL)))


def _ended(at: datetime | None, n_units: int | None) -> Ended | None:
    return None if at is None or n_units is None else Ended(at, n_units)


async def note(connection: asyncpg.Connection, looked: Sequence[tuple[WantedTask, End]], again_s: float) -> None:
    """Keep when each task ends, and when that is worked out again."""
    await SQL.run(
        connection, "note_ends", again_s=again_s, task_ids=[task.task_id for task, _ in looked],
        earliest=[end.earliest_at for _, end in looked], latest=[end.latest_at for _, end in looked],
        told=[end.told for _, end in looked],
        older_at=[task.older.at if task.older else None for task, _ in looked],
        older_n=[task.older.n_units if task.older else None for task, _ in looked],
        newer_at=[task.newer.at if task.newer else None for task, _ in looked],
        newer_n=[task.newer.n_units if task.newer else None for task, _ in looked],
    )  # fmt: skip
