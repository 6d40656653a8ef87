"""Changes of a task's parameters: by a retry, and while the task lives.

Source: JEDI, Task retry and resubmission.

Both go the same way: the changed JSON is checked as a whole task, then rules, site and cloud follow from it. What a
command or the scouts have set since the submission (nucleus, measured values) stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from services.task_definition.policy.commands import refused_changes
from services.task_definition.policy.task_parameters.table import CHANGED_BY_RETRY, CHANGED_LIVE
from services.task_definition.policy.task_spec import parse_task
from services.task_definition.policy.task_spec_problems import InvalidTask
from services.task_definition.store.commands import CommandStore
from services.task_definition.store.tasks import TaskRow, TaskStore
from shared.db.unit_of_work import UnitOfWork
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

#: changes of these are columns of the task besides
_PLACES = ("site", "cloud")


class Changes:
    """Puts changed parameters in place; the task's row is locked."""

    def __init__(self, tasks: TaskStore, store: CommandStore) -> None:
        self._tasks, self._store = tasks, store

    async def by_retry(self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        """What a retry changes; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_BY_RETRY)

    async def live(self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        """What is changed while the task lives, from its next jobs on; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_LIVE)

    async def _change(
        self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any], allowed: Collection[str]
    ) -> tuple[FieldProblem, ...]:
        refused = refused_changes(changes, frozenset(allowed))
        if refused:
            words = f"allowed: {', '.join(sorted(allowed))}"
            told = [problem(name, changes[name], words) for name in refused]
            return tuple(replace(one, said=f"{one.field} cannot be changed; {words}") for one in told)
        parameters = {**await self._tasks.parameters(work.connection, task.task_id), **changes}
        try:
            spec = parse_task(parameters)
        except InvalidTask as error:
            return error.problems
        given = spec.split_rule()
        rule = {**task.split_rule, **{name: value for name, value in given.items() if name in changes}}
        for name in changes:
            if name not in given:
                rule.pop(name, None)
        await self._store.change_parameters(work.connection, task.task_id, parameters)
        moved = any(name in changes for name in _PLACES)
        await self._store.change(
            work.connection,
            task.task_id,
            split_rule=rule,
            site=spec.parameters.site if moved else task.site,
            cloud=(spec.parameters.cloud or task.cloud) if moved else task.cloud,
            nucleus=task.nucleus,
        )
        return ()
