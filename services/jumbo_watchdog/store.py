"""All SQL of the jumbo watchdog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiosql
import asyncpg

from services.jumbo_watchdog.policy.switch import DISABLED, WAITING, JumboTask, Switch
from shared.model.queue import Queue, queue_from_cric
from shared.model.software import QueueSoftware, software_from_map
from shared.model.split_precedence import rules_in_effect

QUERIES = aiosql.from_path(Path(__file__).parent / "queries.sql", "asyncpg", mandatory_parameters=False)


async def event_service_tasks(connection: asyncpg.Connection) -> list[JumboTask]:
    """Active event-service tasks."""
    return [task_of(row) async for row in QUERIES.event_service_tasks(connection)]


def task_of(row: Mapping[str, Any]) -> JumboTask:
    """A row as the policy sees it: of its split rules those that no other one disables."""
    rule = rules_in_effect(row["split_rule"])
    return JumboTask(
        task_id=row["task_id"], use_jumbo=row["use_jumbo"], priority=row["current_priority"],
        remaining_events=row["remaining_events"], software=row["trans_uses"] or "", site=row["site"],
        in_file_positions=bool(rule.get("inFilePosEvtNum")), files_per_job=int(rule.get("nFilesPerJob") or 0),
        events_per_job=int(rule.get("nEventsPerJob") or 0), events_per_file=int(rule.get("nEventsPerInputFile") or 0),
    )  # fmt: skip


async def software_at_jumbo_queues(connection: asyncpg.Connection) -> set[str]:
    """Releases (`PROJECT-RELEASE`, `PROJECT/RELEASE`, RELEASE) at online queues that run jumbo jobs; "" stands for
    tasks that need none."""
    found: set[str] = set()
    async for row in QUERIES.online_queues(connection):
        queue = queue_from_cric(row["queue"], row["data"])
        if not isinstance(queue, Queue) or not queue.runs_jumbo_jobs:
            continue
        software = software_from_map(row["queue"], row["software"] or {})
        if isinstance(software, QueueSoftware):
            found |= {""} | _releases(software)
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
    row = await QUERIES.switch_jumbo(connection, task_id=task.task_id, use_jumbo=flag, was=task.use_jumbo)
    if row is None:
        return False
    await QUERIES.log_switch(
        connection, caller="jumbo-watchdog", verb="enable jumbo" if decision.enable else "disable jumbo",
        target=f"jumbo of task {task.task_id}", details={"reason": decision.reason},
    )  # fmt: skip
    return True
