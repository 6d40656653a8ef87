"""Class of work, share and work queue of a task whose attributes have changed (JEDI: Work queues)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.task_definition.desk.policy.work_queues import WorkQueue
from services.task_definition.tasks.policy.shares import ShareNode, resource_type_of_row, share_for
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.policy.work_queue_of_task import work_queue_for
from shared.model.resource_types import ResourceType


@dataclass(frozen=True)
class Sharing:
    """The tree of shares, resource types and work queues."""

    nodes: tuple[ShareNode, ...]
    resource_types: tuple[ResourceType, ...]
    work_queues: tuple[WorkQueue, ...]


@dataclass(frozen=True)
class Classes:
    """What a task belongs to."""

    resource_type: str
    gshare: str | None
    work_queue_id: int | None


def classes_of(spec: TaskSpec, row: Mapping[str, Any], sharing: Sharing) -> Classes:
    """What a task with these columns belongs to now.

    A share that the tree did not give it (by hand, or raised near the end) stays, and so does a share or queue where
    nothing matches any more. Example: the scouts of a task of one core measured 3000 MB, so that it becomes
    SCORE_HIMEM; it leaves a share for SCORE alone, but not the share Express that it was raised to.
    """
    resource_type = resource_type_of_row(row, sharing.resource_types)
    gshare = row["gshare"]
    if gshare in {share_for(spec, one.name, sharing.nodes) for one in sharing.resource_types}:
        gshare = share_for(spec, resource_type, sharing.nodes) or gshare
    try:
        changed = {name: row[name] for name in ("core_count", "site", "user_name")}
        queue_id = work_queue_for(spec, sharing.work_queues, changed)
    except LookupError:
        queue_id = row["work_queue_id"]
    return Classes(resource_type, gshare, queue_id)
