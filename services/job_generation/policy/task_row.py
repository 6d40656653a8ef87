"""A row of table `tasks` as the task that jobs are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.job_generation.policy.values import Task
from shared.model.units import parse_ram
from shared.task.in_effect import rules_of
from shared.task.needs import needs_of_task


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task; columns that a row does not have are not known.

    Raises BadRule or ValueError for a rule or unit that cannot be used.
    """
    needs, rules = (
        needs_of_task(dict(row)),
        rules_of(row.get("split_rule"), event_service=row.get("event_service") or 0),
    )
    merge_ram = parse_ram(row.get("merge_ram_count"), row.get("merge_ram_unit"))
    return Task(
        task_id=row["task_id"],
        status=row["status"],
        old_status=row.get("old_status"),
        name=row["task_name"],
        user_name=row["user_name"],
        prod_source_label=row.get("prod_source_label") or "managed",
        priority=row["current_priority"],
        gshare=row.get("gshare") or "Undefined",
        resource_type=row.get("resource_type") or "Undefined",
        core_count=1 if row.get("core_count") is None else row["core_count"],
        needs=needs,
        rules=rules,
        vo=row.get("vo"),
        task_type=row.get("task_type"),
        processing_type=row.get("processing_type"),
        working_group=row.get("working_group"),
        nucleus=row.get("nucleus"),
        request_id=row.get("req_id"),
        architecture=row.get("architecture"),
        trans_path=row.get("trans_path"),
        trans_home=row.get("trans_home"),
        trans_uses=row.get("trans_uses"),
        campaign=row.get("campaign"),
        container_name=row.get("container_name"),
        merge_core_count=row.get("merge_core_count"),
        merge_ram=merge_ram,
        merge_walltime_s=row.get("merge_walltime"),
        work_queue_id=row.get("work_queue_id"),
        max_attempt=row["max_attempt"],
        use_jumbo=row.get("use_jumbo"),
        site=row.get("site"),
    )


def is_fixed(column: str, unit: Any, fixed_units: Sequence[str]) -> bool:
    """Whether the task says that this value must stay as it is."""
    return column in fixed_units or f"{column}_unit" in fixed_units or str(unit or "").endswith("Fixed")
