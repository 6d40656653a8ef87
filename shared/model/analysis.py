"""Which work is analysis: one answer for tasks, for jobs, and in SQL (`orrery_is_analysis`)."""

from __future__ import annotations

#: types of tasks
ANALYSIS, PRODUCTION = "anal", "prod"
#: labels of jobs of users: `panda` is the build of a user's sources
ANALYSIS_LABELS = frozenset({"user", "panda"})


def is_analysis(task_type: str | None, label: str | None) -> bool:
    """Whether work is analysis, by its task's type; by the label where only that is at hand (type None).

    Source: JEDI, table JEDI_Tasks: "TASKTYPE: The task type", "PRODSOURCELABEL: The source label, such as managed,
    user, prod_test, ...". The type is `anal` or `prod` whatever the label: an analysis task with the label `test` is
    analysis.
    """
    return task_type == ANALYSIS if task_type else label in ANALYSIS_LABELS
