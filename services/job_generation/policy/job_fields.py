"""What a job specification says of task and queue (PanDA pilot protocol: the job specification)."""

from __future__ import annotations

from typing import Any

from services.job_generation.policy.values import QueueFacts, Task

NOTHING = "NULL"


def base_fields(task: Task, queue: QueueFacts, cores: int, *, is_merge: bool, trans_path: str | None) -> dict[str, Any]:
    """Fields that all jobs of a chunk at one queue share."""
    base: dict[str, Any] = {
        "taskID": task.task_id,
        "jobsetID": task.request_id or task.task_id,
        "reqID": task.request_id or task.task_id,
        "jobDefinitionID": 0,
        "prodSourceLabel": task.prod_source_label,
        "processingType": "pmerge" if is_merge else task.processing_type or NOTHING,
        "prodUserID": task.user_name,
        "workingGroup": task.working_group or NOTHING,
        "cloud": queue.cloud or NOTHING,
        "computingSite": queue.queue,
        "nucleus": task.nucleus or NOTHING,
        "transformation": trans_path or task.trans_path or NOTHING,
        "homepackage": task.trans_home or NOTHING,
        "swRelease": task.trans_uses or NOTHING,
        "cmtConfig": queue.platform or NOTHING,
        "transferType": "direct" if queue.reads_directly and not task.rules.copies_to_scratch else NOTHING,
        "coreCount": cores,
        "resource_type": queue.resource_type,
        "maxCpuCount": queue.max_time_s,
        "loopingCheck": not task.parameters.get("noLoopingCheck"),
        "gshare": task.gshare,
    }
    for field_name, key in (("container_name", "container_name"), ("sourceURL", "sourceURL")):
        value = task.parameters.get(key)
        if value:
            base[field_name] = value
    if task.container_name:
        base["container_name"] = task.container_name
    return base


def task_texts(task: Task) -> dict[str, str]:
    """Texts that are the same for every job of a task."""
    return {
        "TASKID": str(task.task_id),
        "SURL": str(task.parameters.get("sourceURL") or ""),
        "USERNAME": task.user_name,
        "MIDDLENAME": "",
    }
