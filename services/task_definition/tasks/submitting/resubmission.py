"""A task that is submitted again under its name: an incremental execution of the one that exists.

Source: JEDI: Task retry and resubmission, Broken tasks.
"""

from __future__ import annotations

from services.task_definition.tasks.commanding.changing import Changes
from services.task_definition.tasks.commanding.command import Command
from services.task_definition.tasks.commanding.commands import Commands
from services.task_definition.tasks.policy.outputs import plan_outputs
from services.task_definition.tasks.policy.resubmission import AGAIN, merged
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import SameName
from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem


def continued(spec: TaskSpec, same_name: SameName | None, owner: str) -> SameName | None:
    """The task that this one continues: its name is to be the only one, and so is that of the other."""
    if same_name is None or not (spec.parameters.unique_task_name and same_name.unique_name):
        return None
    return same_name if (same_name.user_name, same_name.vo) == (owner, spec.parameters.vo) else None


class Resubmission:
    """Lets the task of the same name and owner go on."""

    def __init__(self, changes: Changes, commands: Commands) -> None:
        self._changes, self._commands = changes, commands

    async def problems(self, work: UnitOfWork, existing: SameName, spec: TaskSpec) -> list[FieldProblem]:
        """Why it cannot be submitted again; its row is locked where it can."""
        name, task_id = spec.parameters.task_name, existing.task_id
        task = await store.lock(work, task_id)
        assert task is not None
        if task.status == "broken":
            allowed = "another name and output, or allowTaskDuplication"
            return [
                problem("taskName", name, f"a task of this name exists (task {task_id}, broken); allowed: {allowed}")
            ]
        if task.status not in AGAIN:
            allowed = f"when it is {', '.join(AGAIN)}"
            told = f"a task of this name exists (task {task_id}, {task.status}); submitted again it can be {allowed}"
            return [problem("taskName", name, told)]
        before = await store.outputs(work, task_id)
        now = {one.name for one in plan_outputs(spec, task_id).datasets}
        return [
            problem("jobParameters", one, f"task {task_id} of this name writes {', '.join(sorted(before))}")
            for one in sorted(now - before)
            if before
        ]

    async def carry_out(
        self, work: UnitOfWork, existing: SameName, spec: TaskSpec, caller: Caller
    ) -> tuple[list[FieldProblem], list[str]]:
        """Problems, or the names of what changed: the task goes on as an incremental execution."""
        task = await store.lock(work, existing.task_id)
        assert task is not None
        parameters, changed = merged(await store.parameters(work.connection, task.task_id), spec)
        problems = await self._changes.replace(work, task, parameters, changed, caller)
        if problems:
            return list(problems), []
        details = {"resubmission": True, "changed": sorted(changed)}
        command = Command("incexec", task.task_id, details, "submitted again")
        reply = await self._commands.execute(work, command, caller)
        if not reply.accepted:
            return [problem("taskName", spec.parameters.task_name, reply.message)], []
        return [], sorted(changed)
