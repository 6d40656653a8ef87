"""All SQL of the jumbo watchdog."""

from __future__ import annotations

import asyncpg

from services.jumbo_watchdog.policy.switch import DISABLED, WAITING, JumboTask, Switch
from shared.db.queries import Queries
from shared.model.grid import Grid
from shared.model.queue import QueueStatus
from shared.model.software import QueueSoftware
from shared.task.in_effect import rules_of

SQL = Queries.beside(__file__)


async def event_service_tasks(connection: asyncpg.Connection) -> list[JumboTask]:
    """Active event-service tasks."""
    return [task_of(row) for row in await SQL.rows(connection, "event_service_tasks")]


def task_of(row: asyncpg.Record) -> JumboTask:
    """A row as the policy sees it: of its split rules those that no other one disables.

    Remaining are the events of input that has no ranges yet, and those of ranges that no job processed; the last range
    of a file counts as a whole one.
    """
    rules = rules_of(row["split_rule"])
    return JumboTask(
        task_id=row["task_id"],
        use_jumbo=row["use_jumbo"],
        priority=row["current_priority"],
        remaining_events=row["events_without_range"] + row["n_ranges"] * (rules.events_per_range or 0),
        software=row["trans_uses"] or "",
        site=row["site"],
        in_file_positions=rules.numbers_within_files,
        files_per_job=rules.n_files_per_job or 0,
        events_per_job=rules.n_events_per_job or 0,
        events_per_file=rules.n_events_per_input_file or 0,
    )


def software_at_jumbo_queues(grid: Grid) -> set[str]:
    """Releases at online queues that run jumbo jobs; "" stands for tasks that need none.

    Each stands as `PROJECT-RELEASE`, `PROJECT/RELEASE` and RELEASE.
    """
    found: set[str] = set()
    for name, queue in grid.queues.items():
        if queue.status is QueueStatus.ONLINE and queue.runs_jumbo_jobs:
            found |= {""} | _releases(grid.software.get(name, QueueSoftware()))
    return found


def _releases(software: QueueSoftware) -> set[str]:
    names: set[str] = set()
    for tag in software.tags:
        if tag.release:
            names |= {tag.release, f"{tag.project}-{tag.release}", f"{tag.project}/{tag.release}"}
    return names


async def switch(connection: asyncpg.Connection, task: JumboTask, decision: Switch) -> bool:
    """Compare-and-set of `use_jumbo`; whether it was as it was judged."""
    flag = WAITING if decision.enable else DISABLED
    row = await SQL.row(connection, "switch_jumbo", task_id=task.task_id, use_jumbo=flag, was=task.use_jumbo)
    if row is None:
        return False
    await SQL.run(
        connection,
        "log_switch",
        caller="jumbo-watchdog",
        verb="enable jumbo" if decision.enable else "disable jumbo",
        target=f"jumbo of task {task.task_id}",
        details={"reason": decision.reason},
    )
    return True
