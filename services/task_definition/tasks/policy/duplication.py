"""Two tasks that write one dataset: refused, unless duplication is allowed.

Source: JEDI: Broken tasks (allowTaskDuplication).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from services.task_definition.tasks.policy.outputs import plan_outputs
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: tasks that may write one dataset, so that who asks for them reads no more
MOST_WRITERS = 500
TOO_MANY = f"{MOST_WRITERS} tasks write this dataset or did before they were archived; allowed: one that fewer write"


@dataclass(frozen=True)
class Writer:
    """A task that writes a dataset; `templates`: of the names of its files there."""

    dataset_name: str
    task_id: int
    user_name: str
    vo: str
    templates: Collection[str]


def outputs_of(spec: TaskSpec, task_id: int = 0) -> list[str]:
    """The datasets that a task writes."""
    return [one.name for one in plan_outputs(spec, task_id).datasets]


def taken(
    spec: TaskSpec, writers: Iterable[Writer], owner: str, may_read: Callable[[Writer], bool] | None = None
) -> list[FieldProblem]:
    """What is wrong where other tasks write the same datasets.

    With duplication allowed both must be of one owner, and name their files differently: by $JEDITASKID; and there are
    at most MOST_WRITERS. Which task it is hears who may read it (`may_read`; else the owner alone).
    """
    fields, templates = fields_of_outputs(spec), _templates(spec)
    writers = list(writers)
    n_writers = Counter(one.dataset_name for one in writers)
    full = [name for name, n_tasks in n_writers.items() if n_tasks >= MOST_WRITERS] if spec.allows_duplication else []
    found = [problem(fields.get(name, "dataset"), name, TOO_MANY) for name in full]
    for one in writers:
        field = fields.get(one.dataset_name, "dataset")
        is_own = (one.user_name, one.vo) == (owner, spec.parameters.vo)
        which = f"task {one.task_id}" if is_own or (may_read is not None and may_read(one)) else "another task"
        if not spec.allows_duplication:
            told = f"{which} writes this dataset; allowed: one of its own, or allowTaskDuplication"
        elif one.user_name != owner:
            told = f"{which} of somebody else writes this dataset; allowed: one of your own"
        elif not templates.get(one.dataset_name, set()).isdisjoint(one.templates):
            told = f"task {one.task_id} gives its files the same names; allowed: names with $JEDITASKID"
        else:
            continue
        found.append(problem(field, one.dataset_name, told))
    return found


def _templates(spec: TaskSpec) -> dict[str, set[str]]:
    """Names of files by dataset; those with the id of the task are like no other's."""
    found: dict[str, set[str]] = {}
    for one in plan_outputs(spec, 0).templates:
        found.setdefault(one.dataset, set()).add(one.file_name_template)
    return found


def fields_of_outputs(spec: TaskSpec) -> dict[str, str]:
    """Which field of the JSON names which output dataset."""
    fields = {
        name: f"jobParameters.{index}.dataset"
        for index, item in enumerate(spec.parameters.job_parameters)
        for name in item.datasets()
    }
    logs = {name: f"{field}.dataset" for field, item in spec.parameters.named_logs() for name in item.datasets()}
    return {**fields, **logs}
