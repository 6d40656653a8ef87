"""All SQL of the jumbo watchdog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from services.jumbo_watchdog.policy.switch import DISABLED, WAITING, JumboTask, Switch
from shared.brokerage.software import Lack, SoftwareNeeds, lack_of, software_of_task
from shared.db.queries import Queries
from shared.model.architecture import InvalidArchitecture
from shared.model.grid import Grid
from shared.model.queue import QueueStatus
from shared.task.in_effect import rules_of

SQL = Queries.beside(__file__)


async def event_service_tasks(connection: asyncpg.Connection, grid: Grid) -> list[JumboTask]:
    """Read active event-service tasks, with whether a queue for jumbo jobs has their software."""
    places: dict[SoftwareNeeds | None, bool] = {}
    found = []
    for row in await SQL.rows(connection, "event_service_tasks"):
        needs = _needs(row)
        if needs not in places:
            places[needs] = needs is not None and has_place(grid, needs)
        found.append(task_of(row, has_place=places[needs]))
    return found


def _needs(row: asyncpg.Record) -> SoftwareNeeds | None:
    """What software a task asks for; None: nobody can read its architecture."""
    try:
        return software_of_task(dict(row), rules_of(row["split_rule"]))
    except InvalidArchitecture:
        return None


def has_place(grid: Grid, needs: SoftwareNeeds) -> bool:
    """Whether an online queue that runs jumbo jobs has the software, as brokerage sees it."""
    return any(
        lack_of(queue, grid.software, needs) is Lack.NOTHING
        for queue in grid.queues.values()
        if queue.status is QueueStatus.ONLINE and queue.runs_jumbo_jobs
    )


def task_of(row: asyncpg.Record, *, has_place: bool) -> JumboTask:
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
        has_place=has_place,
        status=row["status"],
        site=row["site"],
        total_events=row["total_events"],
        files_left=row["files_left"],
        n_active_jumbo_jobs=row["n_active_jumbo_jobs"],
        ready_ranges=row["ready_ranges"],
        files_waiting=row["files_waiting"],
        in_file_positions=rules.numbers_within_files,
        files_per_job=rules.n_files_per_job or 0,
        events_per_job=rules.n_events_per_job or 0,
        events_per_file=rules.n_events_per_input_file or 0,
    )


async def note_reasons(connection: asyncpg.Connection, reasons: Mapping[int, str], switched: Mapping[int, str]) -> None:
    """Keep why each task has jumbo jobs or not, and what was switched now; of other tasks nothing is kept."""
    await SQL.run(
        connection, "note_reasons", task_ids=list(reasons), reasons=list(reasons.values()),
        switched=[switched.get(task_id) for task_id in reasons],
    )  # fmt: skip
    await SQL.run(connection, "forget_reasons", task_ids=list(reasons))


async def kick(connection: asyncpg.Connection, task_ids: Sequence[int]) -> list[int]:
    """Say of these tasks that they lack jumbo jobs; which were as they were judged."""
    return [row["task_id"] for row in await SQL.rows(connection, "kick", task_ids=list(task_ids))]


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
