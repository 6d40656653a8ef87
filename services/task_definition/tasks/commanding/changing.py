"""Changes of a task's parameters: by a retry, by an incremental execution, and while the task lives.

Source: JEDI, Task retry and resubmission.

Both go the same way: the changed JSON is checked as a whole task, then rules, site and cloud follow from it. What a
command or the scouts have set since the submission (nucleus, measured values and rules) stays; an incremental execution
alone takes back the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from services.task_definition.desk.store.audit import audit
from services.task_definition.tasks.commanding.command import Command, Execute
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.changed_parameters import in_own_words, without_items
from services.task_definition.tasks.policy.event_service import use_jumbo
from services.task_definition.tasks.policy.shares import resource_type_for, share_for
from services.task_definition.tasks.policy.task_parameters.table import CHANGED_BY_COMMAND, CHANGED_LIVE
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.auth import Caller
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskJumboSwitched
from shared.model.problems import FieldProblem
from shared.model.secret_notes import WITHHELD, secrets_of
from shared.model.task_spec_problems import problem
from shared.task.stored import COUNTED, name_of

#: changes of these are columns of the task besides
_PLACES = ("site", "cloud")


class Changes:
    """Puts changed parameters in place; the task's row is locked. `count`: why secrets are not given."""

    def __init__(self, count: Callable[[str], None] = lambda cause: None) -> None:
        self._count = count

    async def by_retry(
        self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any], by: Caller
    ) -> tuple[FieldProblem, ...]:
        """What a retry changes; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_BY_COMMAND, by)

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {"change_split_rule": self._change_split_rule}

    async def by_incexec(
        self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any], by: Caller
    ) -> tuple[FieldProblem, ...]:
        """What an incremental execution changes; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_BY_COMMAND, by, takes_datasets=True)

    async def live(
        self, work: UnitOfWork, task: TaskRow, changes: Mapping[str, Any], by: Caller
    ) -> tuple[FieldProblem, ...]:
        """What is changed while the task lives, from its next jobs on; the problems if it may not or cannot."""
        return await self._change(work, task, changes, CHANGED_LIVE, by)

    async def _change(
        self,
        work: UnitOfWork,
        task: TaskRow,
        changes: Mapping[str, Any],
        allowed: Collection[str],
        by: Caller,
        *,
        takes_datasets: bool = False,
    ) -> tuple[FieldProblem, ...]:
        """`takes_datasets`: dsFor<STREAM> names other input for a stream."""
        before = await store.parameters(work.connection, task.task_id)
        meant = in_own_words(before, changes)
        if isinstance(meant, list):
            return tuple(meant)
        changes = meant.named if takes_datasets else {**meant.named, **without_items(meant.of_streams)}
        refused = rules.refused_changes(changes, frozenset(allowed))
        if refused:
            words = f"allowed: {', '.join(sorted(allowed))}"
            told = [problem(name, changes[name], words) for name in refused]
            others = {name: value for name, value in changes.items() if name not in refused}
            wrong = _problems_of({**before, **others})
            return (*(replace(one, said=f"{one.field} cannot be changed; {words}") for one in told), *wrong)
        return await self.replace(
            work, task, {**before, **changes, **meant.of_streams}, {**changes, **meant.of_streams}, by
        )

    async def replace(
        self, work: UnitOfWork, task: TaskRow, parameters: Mapping[str, Any], changes: Collection[str], by: Caller
    ) -> tuple[FieldProblem, ...]:
        """Put other parameters in place, of which `changes` differ; the problems if they make no task."""
        try:
            spec = parse_task(parameters)
        except InvalidTask as error:
            return error.problems
        counted = sorted(COUNTED & set(changes))
        if spec.no_input and counted:
            words = "the jobs of a task without input were counted when it was submitted; allowed: no change"
            return tuple(problem(name, parameters.get(name), words) for name in counted)
        given = spec.split_rule()
        rule = {**task.split_rule, **{name: value for name, value in given.items() if name in changes}}
        for name in changes:
            if name not in given:
                rule.pop(name, None)
        await store_commands.change_parameters(work, task.task_id, parameters)
        await self._withhold_secrets(work, task, spec, changes, by)
        moved = any(name in changes for name in _PLACES)
        await store_commands.change(
            work,
            task.task_id,
            split_rule=rule,
            site=spec.parameters.site if moved else task.site,
            cloud=(spec.parameters.cloud or task.cloud) if moved else task.cloud,
            nucleus=task.nucleus,
            stated=changes,
        )
        if name_of("n_jumbo_jobs") in changes:
            await self._switch_jumbo(work, task, wanted=use_jumbo(spec.parameters) is not None)
        return ()

    async def _switch_jumbo(self, work: UnitOfWork, task: TaskRow, *, wanted: bool) -> None:
        """Jumbo jobs on, where the task had none or they were off, or off."""
        await work.because(f"{name_of('n_jumbo_jobs')} is {'set' if wanted else 'taken away'}")
        if await store_commands.switch_jumbo(work, task.task_id, wanted=wanted):
            work.emit(TaskJumboSwitched(task_id=task.task_id, enabled=wanted))

    async def _withhold_secrets(
        self, work: UnitOfWork, task: TaskRow, spec: TaskSpec, changes: Collection[str], by: Caller
    ) -> None:
        """What somebody else changed runs without its owner's secrets from now on; the owner is told."""
        if not changes or not await store_commands.note_change(work, task.task_id, by.name):
            return
        if spec.parameters.use_secrets:
            await audit(
                work.connection,
                caller=by,
                verb=WITHHELD,
                target=secrets_of(task.user_name),
                details={"vo": task.vo, "task_id": task.task_id, "changed": sorted(changes)},
            )
            self._count("changed")

    async def share_of(self, work: UnitOfWork, task: TaskRow) -> str | None:
        """The share that its parameters and the tree give it; None where none matches: then it keeps its own."""
        try:
            spec = parse_task(await store.parameters(work.connection, task.task_id))
        except InvalidTask:
            return None
        sharing = await store.sharing(work.connection)
        return share_for(spec, resource_type_for(spec, sharing.resource_types), sharing.nodes)

    async def reset_memory(self, work: UnitOfWork, task: TaskRow) -> None:
        """The memory that the parameters say, whatever the scouts measured (JEDI: incexec)."""
        try:
            row = parse_task(await store.parameters(work.connection, task.task_id)).columns()
        except InvalidTask:
            return
        await store_commands.reset_memory(work, task.task_id, ram_count=row["ram_count"], ram_unit=row["ram_unit"])

    async def _change_split_rule(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """A rule that may change while the task lives; what waits may go on with the new one."""
        changes = dict(command.details.get("rules") or {})
        problems = await self.live(work, task, changes, command.by)
        if problems:
            return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
        await store.note_command(work, task.task_id, command.verb, command.details)
        if task.status == "pending":
            await store.release_now(work, task.task_id)
        changed = ", ".join(
            f"without {name}" if value is None else f"{name} = {value}" for name, value in sorted(changes.items())
        )
        reach = await store_commands.reach(work, task.task_id)
        return rules.Reply(rules.OK, f"task {task.task_id}: {changed}, from its next jobs on; {reach}")


def _problems_of(parameters: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """What is wrong with a task that has these."""
    try:
        parse_task(parameters)
    except InvalidTask as error:
        return error.problems
    return ()
