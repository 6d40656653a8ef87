"""Which work queue takes a task (JEDI: Work queues)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.task_definition.desk.policy.work_queues import WorkQueue, in_order, unknown_work_queue
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem


def facts_of_task(spec: TaskSpec, changed: Mapping[str, Any]) -> dict[str, Any]:
    """What criteria are asked of; `changed`: columns that the submission does not say, as the owner."""
    row = {**spec.columns(), **changed}
    names = ",".join(sorted(spec.split_rule()))
    return {"event_service": 0, **row, "vo": spec.parameters.vo, "split_rule_names": names}


def work_queue_for(spec: TaskSpec, queues: Sequence[WorkQueue], changed: Mapping[str, Any]) -> int | None:
    """The queue that is named in the task, else the first that takes it; None: shares alone decide.

    Raises LookupError for a name that no active queue has whose label, VO and criteria match the task.
    """
    wanted, facts = spec.parameters.work_queue_name, facts_of_task(spec, changed)
    found = (one.queue_id for one in in_order(queues) if wanted in (None, one.name) and one.takes(facts))
    queue_id = next(found, None)
    if queue_id is None and wanted is not None:
        raise LookupError(wanted)
    return queue_id


def named_work_queue(spec: TaskSpec, queues: Sequence[WorkQueue], owner: str) -> tuple[int | None, list[FieldProblem]]:
    """The work queue of the task (None: shares alone decide), or what is wrong with its name."""
    try:
        return work_queue_for(spec, queues, {"user_name": owner}), []
    except LookupError:
        wanted, vo = spec.parameters.work_queue_name or "", spec.parameters.vo
        facts = facts_of_task(spec, {"user_name": owner})
        names = ", ".join(sorted({one.name for one in queues if one.takes(facts)}))
        words = f"allowed: a work queue of {vo} whose label and criteria match this task: {names or 'none'}"
        return None, unknown_work_queue(wanted, vo, queues) or [problem("workQueueName", wanted, words)]
