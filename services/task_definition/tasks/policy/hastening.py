"""Which tasks are near their end and are hurried (JEDI: Automatic priority boosting)."""

from __future__ import annotations

from collections.abc import Sequence

from services.task_definition.tasks.policy.shares import ShareNode
from shared.model.expression import parse_expression
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules

#: percent of the input that is worked on, and jobs to do below which a task is hurried
NEAR_PERCENT, FEW_JOBS = 95, 100
PRIORITY = 900
EXPRESS = "Express"
#: what parents must be: those that still work have more for the task to do
COMPLETED: tuple[TaskStatus | None, ...] = (None, "done", "finished")


def is_near_its_end(status: TaskStatus, n_files: int, n_ended: int, live_jobs: int, rules: SplitRules) -> bool:
    """Whether 95 % of the files of a running task are worked on, and fewer than 100 jobs are left to do.

    `n_ended`: finished or given up. Jobs to do are those that live, or those that the rest of the files would make.
    Example: of 1000 files 951 are finished; with 10 files in a job 5 jobs are left.
    """
    if status != "running" or not may_be_near_its_end(n_files, n_ended):
        return False
    per_job = rules.n_files_per_job or 1
    return max(live_jobs, -(-(n_files - n_ended) // per_job)) < FEW_JOBS


def may_be_near_its_end(n_files: int, n_ended: int) -> bool:
    """Whether so much of the input is worked on that a task may be hurried."""
    return n_ended < n_files and 100 * n_ended >= NEAR_PERCENT * n_files


def told(n_files: int, n_ended: int, live_jobs: int) -> str:
    """Why a task is hurried, with the numbers.

    Example: "near its end: 98 of 100 files are worked on (from 95 % on), 2 jobs live (fewer than 100 are left)".
    """
    return (
        f"near its end: {n_ended} of {n_files} files are worked on (from {NEAR_PERCENT} % on), "
        f"{live_jobs} jobs live (fewer than {FEW_JOBS} are left)"
    )


def is_leaf(nodes: Sequence[ShareNode], name: str) -> bool:
    """Whether tasks may have this share."""
    return any(node.name == name for node in nodes) and all(node.parent != name for node in nodes)


def express_share(nodes: Sequence[ShareNode], vo: str) -> str | None:
    """The leaf Express, if there is one that takes tasks of the VO."""
    parents = {node.parent for node in nodes}
    for node in nodes:
        if node.name == EXPRESS and node.name not in parents:
            expression = (node.expressions or {}).get("vo")
            if expression is None or parse_expression(expression).matches_start_of(vo):
                return node.name
    return None
