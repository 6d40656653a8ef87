"""Changes of a task's parameters: by a retry, by an incremental execution, and while the task lives.

Source: JEDI, Task retry and resubmission.

Both go the same way: the changed JSON is checked as a whole task, then rules, site and cloud follow from it. What a
command or the scouts have set since the submission (nucleus, measured values and rules) stays; an incremental execution
alone takes back the memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from services.task_definition.commanding.command import Command, Execute
from services.task_definition.policy import commands as rules
from services.task_definition.policy.shares import resource_type_for, share_for
from services.task_definition.policy.task_parameters.table import (
    CHANGED_BY_INCEXEC,
    CHANGED_BY_RETRY,
    CHANGED_LIVE,
)
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

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {"change_split_rule": self._change_split_rule}

    async def by_incexec(self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        """What an incremental execution changes; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_BY_INCEXEC)

    async def live(self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        """What is changed while the task lives, from its next jobs on; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_LIVE)

    async def _change(
        self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any], allowed: Collection[str]
    ) -> tuple[FieldProblem, ...]:
        refused = rules.refused_changes(changes, frozenset(allowed))
        if refused:
            words = f"allowed: {', '.join(sorted(allowed))}"
            told = [problem(name, changes[name], words) for name in refused]
            others = {name: value for name, value in changes.items() if name not in refused}
            wrong = _problems_of({**await self._tasks.parameters(work.connection, task.task_id), **others})
            return (*(replace(one, said=f"{one.field} cannot be changed; {words}") for one in told), *wrong)
        parameters = {**await self._tasks.parameters(work.connection, task.task_id), **changes}
        return await self.replace(work, task, parameters, changes)

    async def replace(
        self, work: UnitOfWork, task: TaskRow, parameters: Mapping[str, Any], changes: Collection[str]
    ) -> tuple[FieldProblem, ...]:
        """Put other parameters in place, of which `changes` differ; the problems if they make no task."""
        try:
            spec = parse_task(parameters)
        except InvalidTask as error:
            return error.problems
        counted = sorted({"nFiles", "nEvents"} & set(changes))
        if spec.no_input and counted:
            words = "the jobs of a task without input were counted when it was submitted; allowed: no change"
            return tuple(problem(name, parameters.get(name), words) for name in counted)
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
            stated=changes,
        )
        return ()

    async def share_of(self, work: UnitOfWork, task: TaskRow) -> str | None:
        """The share that its parameters and the tree give it; None where none matches: then it keeps its own."""
        try:
            spec = parse_task(await self._tasks.parameters(work.connection, task.task_id))
        except InvalidTask:
            return None
        sharing = await self._tasks.sharing(work.connection)
        return share_for(spec, resource_type_for(spec, sharing.resource_types), sharing.nodes)

    async def reset_memory(self, work: UnitOfWork, task: TaskRow) -> None:
        """The memory that the parameters say, whatever the scouts measured (JEDI: incexec)."""
        try:
            row = parse_task(await self._tasks.parameters(work.connection, task.task_id)).columns()
        except InvalidTask:
            return
        await self._store.reset_memory(
            work.connection, task.task_id, ram_count=row["ram_count"], ram_unit=row["ram_unit"]
        )

    async def _change_split_rule(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """A rule that may change while the task lives; what waits may go on with the new one."""
        changes = dict(command.details.get("rules") or {})
        problems = await self.live(work, task, changes)
        if problems:
            return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
        await self._tasks.note_command(work.connection, task.task_id, command.verb, command.details)
        if task.status == "pending":
            await self._tasks.release_now(work.connection, task.task_id)
        changed = ", ".join(
            f"without {name}" if value is None else f"{name} = {value}" for name, value in sorted(changes.items())
        )
        return rules.Reply(rules.OK, f"task {task.task_id}: {changed}, from its next jobs on")


def _problems_of(parameters: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """What is wrong with a task that has these."""
    try:
        parse_task(parameters)
    except InvalidTask as error:
        return error.problems
    return ()
