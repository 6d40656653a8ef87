"""What the order of a job depends on, where its VO uses task queues (DIRAC: task queue identity)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.job_generation.policy.requirements import Requirement
from services.job_generation.policy.values import Task
from shared.order.cpu_segments import cpu_segment_s
from shared.order.identity import TaskQueueIdentity, as_set, priority_class

DEFAULT_USER_PRIORITY = 1


def task_queue_of(task: Task, requirement: Requirement, kind: str, segments_s: Sequence[int]) -> TaskQueueIdentity:
    """The task queue of a job.

    By owner and working group, time, and what the task says of where it may run. Its CPU time is the walltime that a
    pilot must offer. Merge jobs go where their files are, whatever the task says of sites. The job type is the task's
    processing type. Example: a task with includedSite ["ALPHA"] and jobs of 2 h is of the segment of 21 600 s and for
    ALPHA.
    """
    given = task.parameters
    is_merge = kind == "merge"
    named = _names(given.get("site")) or _names(given.get("includedSite"))
    architecture = task.architecture
    return TaskQueueIdentity(
        task.vo or "",
        task.user_name,
        task.working_group or "",
        cpu_segment_s(requirement.walltime_s, segments_s),
        () if is_merge else as_set(named),
        () if is_merge else as_set(_names(given.get("excludedSite"))),
        as_set([architecture] if architecture and architecture[0] not in "@#&{" else []),
        as_set(_names(given.get("tags"))),
        as_set([task.processing_type] if task.processing_type else []),
    )


def user_priority_of(task: Task) -> int:
    """The class of the task's `userPriority`: which of their own jobs users want first."""
    given = task.parameters.get("userPriority")
    return priority_class(given if isinstance(given, int) else DEFAULT_USER_PRIORITY)


def _names(given: Any) -> list[str]:
    """A list, or a text with commas, as the task has it."""
    if isinstance(given, str):
        return [one.strip() for one in given.split(",") if one.strip()]
    return [str(one) for one in given or ()]
