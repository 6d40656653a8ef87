"""The task queues of a world file by priority, by the rules by which dispatch orders them."""

from __future__ import annotations

from typing import Any

from services.cli.dry_run.parameters_of_file import parameters_of
from shared.model.world_file import WorldFile
from shared.order.identity import TaskQueueIdentity
from shared.order.parameters import CONSOLIDATION
from shared.order.task_queues import Consolidation, Corrections, GroupProperties, WaitingQueue, described, prioritised


def order_of_task_queues(file: WorldFile) -> list[dict[str, Any]]:
    """One row for each task queue with every term, the highest priority first.

    Raises ValueError for a parameter that has no value of its type.
    """
    parameters = parameters_of(file)
    groups = {
        (one.vo, one.name): GroupProperties(one.job_share, one.job_sharing, one.allows_background)
        for one in file.user_groups
    }
    by_vo: dict[str, list[WaitingQueue]] = {}
    for number, one in enumerate(file.task_queues, start=1):
        queue = WaitingQueue(number, TaskQueueIdentity.of(one.model_dump()), one.n_jobs)
        by_vo.setdefault(one.vo, []).append(queue)
    rows, corrections = [], corrections_of(file)
    for vo, queues in sorted(by_vo.items()):
        how: Consolidation = "average" if parameters.read(CONSOLIDATION, vo=vo) == "average" else "sum"
        rows += [described(one) for one in prioritised(queues, groups, consolidation=how, corrections=corrections)]
    return sorted(rows, key=lambda row: (-row["priority"], row["task_queue_id"]))


def corrections_of(file: WorldFile) -> Corrections:
    """Factors of groups and of users in them."""
    factors = file.group_corrections
    return Corrections(
        {(one.vo, one.user_group): one.correction_factor for one in factors if not one.user_name},
        {(one.vo, one.user_group, one.user_name): one.correction_factor for one in factors if one.user_name},
    )
