"""recover_lost_files: lost outputs are made again from the input that they were made of.

Source: JEDI: Lost file recovery. Names of lost files lead to the jobs that made them, those to their input; it is
re-opened, and new files get new names in the dataset that is there or in a new one. What else these jobs wrote would be
there twice: it is taken out with the lost files. Where input is lost too, the task that made it recovers it first, and
this one waits for it as a child.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.task_definition.data.store.scopes import given_away
from services.task_definition.data.wishing import Wishes
from services.task_definition.desk.store.audit import audit
from services.task_definition.tasks.announcing import emit_for_status
from services.task_definition.tasks.commanding.command import SYSTEM, Command, Execute, announce
from services.task_definition.tasks.commanding.reopening import reopen_outputs
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.recovery import KnownFile, RecoveryPlan, said
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import recoveries
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskRegistered, TaskReleased
from shared.model.analysis import is_analysis
from shared.model.names import owning_scope
from shared.model.task_spec_problems import problem
from shared.states.task import FINAL

MORE_ATTEMPTS = 5
#: files that one command names, and rows of a task that it may concern
MOST_FILES = 10_000


class RecoveryRefused(Exception):
    """Why nothing is recovered; everything is rolled back."""

    def __init__(self, reply: rules.Reply) -> None:
        super().__init__(reply.message)
        self.reply = reply


@dataclass(frozen=True)
class Recovered:
    """What a task has to do again."""

    plan: RecoveryPlan
    parents: Mapping[int, Sequence[str]]


class Recovery:
    """Carries the command out; parents recover in the same transaction, or nothing happens at all."""

    def __init__(self, catalogue: Catalogue, wishes: Wishes) -> None:
        self._catalogue, self._wishes = catalogue, wishes

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {"recover_lost_files": self._recover}

    async def _recover(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        try:
            async with work.connection.transaction():
                return await self._recover_or_refuse(work, task, command, reason)
        except RecoveryRefused as refusal:
            return refusal.reply

    async def _recover_or_refuse(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        found = await self._plan(work, task, command.details.get("files"))
        suffix = command.details.get("new_dataset_suffix")
        if not found.plan.outputs:
            return rules.Reply(rules.OK, f"task {task.task_id}: no output is lost")
        if (found.parents or suffix) and task.status not in FINAL:
            why = "its input is lost too" if found.parents else "new datasets are for tasks that have ended"
            raise RecoveryRefused(rules.Reply(rules.IRRELEVANT, f"task {task.task_id} is {task.status}: {why}"))
        written = sorted({one.dataset_name for one in found.plan.outputs})
        if foreign := await given_away(work.connection, written, task.vo):
            told = f"task {task.task_id}: {', '.join(sorted(foreign))} now belongs to another VO"
            raise RecoveryRefused(rules.Reply(rules.IRRELEVANT, told))
        if command.details.get("dry_run"):
            return rules.Reply(rules.OK, f"dry run: {said(task.task_id, found.plan, found.parents)}")
        await self._take_out(work, task, found.plan, reason)
        await recoveries.reopen_inputs(work, task.task_id, found.plan.inputs, more=MORE_ATTEMPTS, reason=reason)
        await recoveries.lose(work, task.task_id, found.plan.lost_inputs, reason=reason)
        if suffix:
            await self._redirect(work, task, found.plan, str(suffix))
        for parent_id, names in sorted(found.parents.items()):
            await self._recover_parent(work, task, parent_id, names)
        await self._go_on(work, task, command, reason, waits=bool(found.parents))
        return rules.Reply(rules.OK, said(task.task_id, found.plan, found.parents))

    async def _plan(self, work: UnitOfWork, task: TaskRow, names: Sequence[str] | None) -> Recovered:
        connection = work.connection
        lost = await self._lost_outputs(work, task, names)
        job_ids = await recoveries.makers(connection, sorted({one.job_id for one in lost}))
        outputs = await recoveries.outputs_of_jobs(connection, task.task_id, job_ids)
        used = await recoveries.inputs_of_jobs(connection, task.task_id, job_ids)
        # asked after it was read: what is dropped meanwhile is dropped of whole jobs
        if unknown := await recoveries.jobs_of_dropped_files(connection, job_ids):
            told = (
                f"task {task.task_id}: what its job {unknown[0]} read is not known any more "
                "(maintenance.JOB_FILES_KEEP_DAYS): it cannot be made again"
            )
            raise RecoveryRefused(rules.Reply(rules.IRRELEVANT, told))
        absent = await self._catalogue.absent(
            connection, [(one.dataset_name, one.lfn) for one in used if one.type == "input"]
        )
        gone = [one for one in used if (one.dataset_name, one.lfn) in absent]
        parents = await self._parents(work, task, gone)
        there = [one for one in used if (one.dataset_name, one.lfn) not in absent]
        return Recovered(RecoveryPlan(tuple(lost), tuple(outputs), tuple(there), tuple(gone), len(job_ids)), parents)

    async def _lost_outputs(self, work: UnitOfWork, task: TaskRow, names: Sequence[str] | None) -> list[KnownFile]:
        """The outputs that are named, or those that the catalogue does not have any more."""
        if names is None:
            found: list[KnownFile] = []
            async for some in recoveries.finished_outputs(work.connection, task.task_id):
                absent = await self._catalogue.absent(work.connection, [(one.dataset_name, one.lfn) for one in some])
                found += [one for one in some if (one.dataset_name, one.lfn) in absent]
                if len(found) > MOST_FILES:
                    break
            return found[:MOST_FILES]
        wanted = list(dict.fromkeys(names))
        found = await recoveries.named_outputs(work.connection, task.task_id, wanted)
        unknown = sorted(set(wanted) - {one.lfn for one in found})
        if unknown or not wanted:
            allowed = f"allowed: outputs that task {task.task_id} has finished"
            problems = tuple(problem("files", one, allowed) for one in unknown) or (problem("files", [], allowed),)
            message = "; ".join(str(one) for one in problems[:20])
            raise RecoveryRefused(rules.Reply(rules.BAD_VALUE, message, problems))
        return found

    async def _parents(self, work: UnitOfWork, task: TaskRow, gone: Sequence[KnownFile]) -> dict[int, list[str]]:
        """Who made the input that is lost, by task."""
        if not gone:
            return {}
        names = sorted({one.lfn for one in gone})
        makers = await recoveries.makers_of_files(work.connection, task.task_id, names)
        known = {(row["dataset_name"], row["lfn"]): row["task_id"] for row in makers}
        found: dict[int, list[str]] = defaultdict(list)
        for one in sorted({(one.dataset_name, one.lfn) for one in gone}):
            if one not in known:
                told = f"its input {one[1]} of {one[0]} is lost too, and no task here made it"
                raise RecoveryRefused(rules.Reply(rules.BAD_VALUE, f"task {task.task_id}: {told}"))
            found[known[one]].append(one[1])
        return dict(found)

    async def _recover_parent(self, work: UnitOfWork, task: TaskRow, parent_id: int, names: Sequence[str]) -> None:
        """The parent recovers what this task needs, for this task's sake."""
        parent = await store.lock(work, parent_id)
        assert parent is not None
        if parent.vo != task.vo or rules.refuse("recover_lost_files", parent.status) is not None:
            told = f"task {parent_id} ({parent.status}), which made its lost input, cannot recover it now"
            raise RecoveryRefused(rules.Reply(rules.IRRELEVANT, f"task {task.task_id}: {told}"))
        command = Command("recover_lost_files", parent_id, {"files": list(names)}, f"for task {task.task_id}")
        reply = await self._recover_or_refuse(work, parent, command, f"its child {task.task_id} lost its input")
        if not reply.accepted:
            raise RecoveryRefused(reply)
        await audit(
            work.connection,
            caller=SYSTEM,
            verb="task.recover_lost_files",
            target=f"task:{parent_id}",
            details={**command.details, "for": task.task_id},
        )
        await recoveries.note_parent(work.connection, task.task_id, parent_id)

    async def _take_out(self, work: UnitOfWork, task: TaskRow, plan: RecoveryPlan, reason: str) -> None:
        """Lost files, and those of the same jobs, leave their datasets."""
        await self._catalogue.reopen(work.connection, sorted({one.dataset_name for one in plan.outputs}))
        await self._catalogue.remove_files(work.connection, [(one.dataset_name, one.lfn) for one in plan.outputs])
        await recoveries.lose(work, task.task_id, plan.outputs, reason=reason)

    async def _redirect(self, work: UnitOfWork, task: TaskRow, plan: RecoveryPlan, suffix: str) -> None:
        """New files go to new datasets."""
        names = sorted({one.dataset_name for one in plan.outputs if one.type == "output"})
        new = [f"{name}{suffix}" for name in names]
        taken = await store.writers(work.connection, new)
        known = await self._catalogue.find(work.connection, new)
        elsewhere = {other for name, other in zip(names, new, strict=True) if owning_scope(name) != owning_scope(other)}
        too_long = {one for one in new if len(one) > 255}
        wrong = sorted({one.dataset_name for one in taken} | known.keys() | too_long | elsewhere)
        if wrong:
            told = problem(
                "new_dataset_suffix", suffix, f"allowed: new names of at most 255 characters in the same scope: {wrong}"
            )
            raise RecoveryRefused(rules.Reply(rules.BAD_VALUE, str(told), (told,)))
        for name, other in zip(names, new, strict=True):
            scope = await recoveries.redirect(work, task.task_id, name, other)
            await self._catalogue.create(work.connection, other, scope=scope)
            dataset = {"scope": scope, "name": other, "container": None}
            await self._wishes.create(work, task.task_id, task.vo, [dataset])

    async def _go_on(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, *, waits: bool) -> None:
        """Ended tasks are opened again; one that waits for its parent reads its input again after that."""
        task_id = task.task_id
        if task.status not in (*FINAL, "exhausted"):
            await announce(work, task, command, task.status)
            work.emit(TaskReleased(task_id=task_id, status=task.status, reason=reason, released_at=work.now))
            return
        await store.move(work, task_id, "toincexec" if waits else "toretry", reason, old_status=task.old_status)
        await reopen_outputs(work, task, self._catalogue, self._wishes)
        await store_commands.renew(work, task_id, keep_priority=False, gshare=None)
        if waits:
            await store.move(work, task_id, "rerefine", reason)
            await announce(work, task, command, "rerefine")
            work.emit(TaskRegistered(task_id=task_id))
            return
        target = rules.retried_status(
            task.status,
            task.old_status,
            has_scout_data=task.has_scout_data,
            needs_nucleus=rules.needs_nucleus(
                is_analysis=is_analysis(task.task_type, task.prod_source_label),
                nucleus=task.nucleus,
                site=task.site,
                cloud=task.cloud,
            ),
        )
        await store.move(work, task_id, target, reason, sources=["toretry"])
        await announce(work, task, command, target)
        emit_for_status(work, task_id, target, reason, nucleus=task.nucleus)
