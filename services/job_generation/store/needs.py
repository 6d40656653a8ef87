"""What a task and its units ask for, changed by what its jobs measured or failed with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.db.queries import Queries
from shared.db.unit_of_work import UnitOfWork

SQL = Queries.beside(__file__)


async def count_raised(work: UnitOfWork, task_id: int, changes: Mapping[int, int]) -> dict[int, int]:
    """Count input whose memory was raised, by memory; what the task's input asks for now."""
    rams = sorted(changes)
    values = [changes[ram_mb] for ram_mb in rams]
    await SQL.run(work.connection, "count_raised_memory", task_id=task_id, rams=rams, changes=values)
    rows = await SQL.rows(work.connection, "raised_memory_of_task", task_id=task_id)
    return {row["ram_mb"]: row["n_files"] for row in rows}


async def raise_task_memory(work: UnitOfWork, task_id: int, ram_mb: int, resource_type: str) -> bool:
    """More memory for the whole task; whether it had less."""
    row = await SQL.row(
        work.connection, "raise_task_memory", task_id=task_id, ram_mb=ram_mb, resource_type=resource_type
    )
    return row is not None


async def set_cpu_time(work: UnitOfWork, task_id: int, cpu_time: int) -> bool:
    """The CPU time of a task that had none; whether it had none."""
    return await SQL.row(work.connection, "set_task_cpu_time", task_id=task_id, cpu_time=cpu_time) is not None


async def change_split_rule(work: UnitOfWork, task_id: int, split_rule: Mapping[str, Any]) -> None:
    """Cut the task by other rules from now on."""
    await SQL.run(work.connection, "change_split_rule", task_id=task_id, split_rule=dict(split_rule))


async def avoid_sites(work: UnitOfWork, site_of_file: Mapping[int, str]) -> None:
    """Units that are not tried again at a site as long as there is another."""
    ids = sorted(site_of_file)
    await SQL.run(work.connection, "avoid_sites", ids=ids, sites=[site_of_file[one] for one in ids])
