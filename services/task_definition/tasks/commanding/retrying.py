"""Commands that give input another try: retry, reactivate, incexec, increase_attempts, release.

Source: JEDI: Task retry and resubmission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.announcing import emit_for_status
from services.task_definition.tasks.commanding.changing import Changes
from services.task_definition.tasks.commanding.command import Command, Execute, announce
from services.task_definition.tasks.commanding.reopening import reopen_outputs
from services.task_definition.tasks.commanding.unit_slices import UnitSlices, released
from services.task_definition.tasks.policy import commands as rules
from services.task_definition.tasks.policy.preprocessing import is_due
from services.task_definition.tasks.policy.retry_limits import RetryLimits, exhausted_for, refused_for
from services.task_definition.tasks.store import commands as store_commands
from services.task_definition.tasks.store import preprocessing
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.reopenings import Reopening, ReopenStep
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted, TaskRegistered
from shared.model.analysis import is_analysis
from shared.snapshot import KnownGrid
from shared.states.file import FileStatus
from shared.task.stored import COUNTED

MORE_ATTEMPTS = 5
REOPENED_BY_RETRY: tuple[FileStatus, ...] = ("failed",)
REOPENED_BY_INCEXEC: tuple[FileStatus, ...] = ("failed", "lost", "missing")
#: what follows for the children of a task that is tried again
Follow = Callable[[UnitOfWork, TaskRow, Command], Awaitable[None]]


class TaskRetries:
    """One method for each of them; `follow` takes the children along.

    `slices`: what opens much input again.
    """

    def __init__(
        self,
        changes: Changes,
        catalogue: Catalogue,
        wishes: Wishes,
        grid: KnownGrid,
        parameters: Parameters,
        follow: Follow,
    ) -> None:
        self._changes, self._catalogue, self._wishes = changes, catalogue, wishes
        self._grid, self._parameters, self._follow = grid, parameters, follow
        self.slices = UnitSlices({"retry": self._go_on, "read_again": self._refine_again})

    def verbs(self) -> dict[str, Execute]:
        """What it carries out."""
        return {
            "retry": self._retry,
            "reactivate": self._reactivate,
            "incexec": self._incexec,
            "increase_attempts": self._increase_attempts,
            "release": self._release,
        }

    async def _reopen_outputs(self, work: UnitOfWork, task: TaskRow) -> None:
        await reopen_outputs(work, task, self._catalogue, self._wishes)

    async def _retry(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """Try again what failed in a task that ended.

        * Its limits first: too many retries are refused, or the task is exhausted instead (`_limited`).
        * Parameters that come with it are changed (`Changes.by_retry`); one that decides what input is, input that was
          not read to its end, and the result of pre-processing have the input read again, as `incexec` does.
        * Failed files are ready again with `MORE_ATTEMPTS` more attempts; finished ones stay. Those that
          wait for staging are taken as staged if disable_staging_mode asks for it.
        * Output datasets that were closed are open again.
        * Priority and share are what the task was given, unless keep_gshare_priority keeps those of now.
        * It is ready then, or assigning without a nucleus, topreprocess before its pre-processing; one that was
          exhausted while it scouted or ran goes on there (`retried_status`). Its children are retried, but aborted,
          broken and failed ones.
        * Ranges of its files are processed again, unless notDiscardEvents keeps those that were processed;
          discard_events discards these too (job_generation: `kinds/event_service`).
        """
        changes = dict(command.details.get("new_parameters") or {})
        limited = await _limited(work, task, command, self._grid, self._parameters)
        if limited is not None:
            return limited
        if changes:
            problems = await self._changes.by_retry(work, task, changes, command.by)
            if problems:
                return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
            if "ramCount" in changes:
                await self._changes.reset_memory(work, task)
            if COUNTED & changes.keys():
                return await self._read_again(work, task, command, reason)
        if await preprocessing.has_result(work, task.task_id):
            return await self._read_again(work, task, command, reason)  # it ended before it was refined with that
        reply = await self._try_again(work, task, command, reason, more=MORE_ATTEMPTS)
        return rules.Reply(reply.code, reply.message, data=rules.INCREMENTAL if changes else rules.OK)

    async def _reactivate(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        if task.status == "pending":
            await store.release_now(work, task.task_id)
            return rules.Reply(rules.OK, f"task {task.task_id} is released from pending now")
        more = 0 if command.details.get("keep_attempt_nr") else task.max_attempt
        return await self._try_again(work, task, command, reason, more=more)

    async def _try_again(
        self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, *, more: int
    ) -> rules.Reply:
        """toretry, units re-opened, and on; without anything to do back to where it was.

        One that was ended before its input was all read reads the rest; one whose VO may not read some input any more
        is refined again, which says so.
        """
        is_half_read = await store_commands.is_half_read(work, task.task_id)
        if is_half_read or await store_commands.closed_input(work, task.task_id):
            return await self._read_again(work, task, command, reason)
        await store.move(work, task.task_id, "toretry", reason, old_status=task.old_status)
        left = await store_commands.files_to_do(work, task.task_id)
        steps = [ReopenStep(status, more) for status in REOPENED_BY_RETRY]
        if command.details.get("disable_staging_mode"):
            await store_commands.take_unstaged(work, task.task_id)
            steps.append(ReopenStep("staging", 0))
        begun = await self.slices.begin(work, task, command, reason, "retry", tuple(steps), n_left=left)
        return begun.reply or await self._go_on(work, task, command, reason, begun.reopening)

    async def _go_on(
        self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, done: Reopening
    ) -> rules.Reply:
        """All that failed is open again: on where there is something to do; else back to where it was."""
        if done.n_reopened == 0 and done.n_left == 0:
            back = "nothing left to retry"
            await store.move(
                work, task.task_id, task.status, back, old_status=task.old_status, error_dialog=task.error_dialog
            )
            return rules.Reply(
                rules.OK, f"task {task.task_id}: {back}; it stays {task.status}; incexec looks for new input"
            )
        await self._reopen_outputs(work, task)
        await self._renew(work, task, command)
        for_analysis = is_analysis(task.task_type, task.prod_source_label)
        target = rules.retried_status(
            task.status,
            task.old_status,
            has_scout_data=task.has_scout_data,
            needs_nucleus=rules.needs_nucleus(
                is_analysis=for_analysis, nucleus=task.nucleus, site=task.site, cloud=task.cloud
            ),
            needs_preprocessing=is_due(task.rules),
        )
        await store.move(work, task.task_id, target, reason, sources=["toretry"])
        await announce(work, task, command, target)
        if target in ("ready", "assigning", "topreprocess"):
            emit_for_status(work, task.task_id, target, reason, nucleus=task.nucleus)
        await self._follow(work, task, command)
        said = rules.what_is_retried(done.n_reopened, done.n_left)
        return rules.Reply(rules.OK, f"task {task.task_id} is retried: {said}")

    async def _renew(self, work: UnitOfWork, task: TaskRow, command: Command) -> None:
        """It starts afresh, with the priority and share that it was given, unless those of now are to be kept."""
        keep = bool(command.details.get("keep_gshare_priority"))
        gshare = None if keep else await self._changes.share_of(work, task)
        await store_commands.renew(work, task.task_id, keep_priority=keep, gshare=gshare)

    async def _incexec(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        changes = dict(command.details.get("new_parameters") or {})
        if changes:
            problems = await self._changes.by_incexec(work, task, changes, command.by)
            if problems:
                return rules.Reply(rules.BAD_VALUE, "; ".join(str(one) for one in problems), problems)
        if task.status == "pending":
            await store.release_now(work, task.task_id)
            return rules.Reply(rules.OK, f"task {task.task_id} looks at its input now")
        return await self._read_again(work, task, command, reason)

    async def _read_again(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """The input is read again, lost and missing files are tried again, memory is what the parameters say."""
        await store.move(work, task.task_id, "toincexec", reason)
        steps = tuple(ReopenStep(status, MORE_ATTEMPTS) for status in REOPENED_BY_INCEXEC)
        begun = await self.slices.begin(work, task, command, reason, "read_again", steps)
        reply = begun.reply or await self._refine_again(work, task, command, reason, begun.reopening)
        return rules.Reply(reply.code, reply.message, data=rules.INCREMENTAL if command.verb == "retry" else rules.OK)

    async def _refine_again(
        self, work: UnitOfWork, task: TaskRow, command: Command, reason: str, done: Reopening
    ) -> rules.Reply:
        """What failed, was lost or missing is open again: the task is refined again with its parameters of now."""
        await self._reopen_outputs(work, task)
        await self._changes.reset_memory(work, task)
        await self._renew(work, task, command)
        await store.move(work, task.task_id, "rerefine", reason)
        reply = await announce(work, task, command, "rerefine")
        work.emit(TaskRegistered(task_id=task.task_id))
        await self._follow(work, task, command)
        return reply

    async def _increase_attempts(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        more: Any = command.details.get("increase", MORE_ATTEMPTS)
        if type(more) is not int or not 1 <= more <= 100:
            return rules.refused_value("increase", more, "allowed: a whole number from 1 to 100")
        if (closed := await _closed(work, task)) is not None:
            return closed
        await store_commands.raise_attempts(work, task.task_id, more)
        begun = await self.slices.begin(work, task, command, reason, "live", (ReopenStep(None, more),))
        await announce(work, task, command, task.status)
        reopened = begun.reopening.n_reopened
        if reopened:
            released(work, task, reason)
        follows = ", the others follow" if begun.reply else ""
        said = f"{more} more attempts, {rules.units(reopened)} re-opened{follows}"
        return rules.Reply(rules.OK, f"task {task.task_id}: {said}")

    async def _release(self, work: UnitOfWork, task: TaskRow, command: Command, reason: str) -> rules.Reply:
        """What is being staged is taken as staged, and who waits for it goes on."""
        if (closed := await _closed(work, task)) is not None:
            return closed
        await store_commands.take_unstaged(work, task.task_id)
        begun = await self.slices.begin(work, task, command, reason, "live", (ReopenStep("staging", 0),))
        n_units, follows = begun.reopening.n_reopened, ", the others follow" if begun.reply else ""
        await announce(work, task, command, task.status)
        if task.status == "pending":
            await store.release_now(work, task.task_id)
        elif n_units:
            released(work, task, reason)
        said = f"{rules.units(n_units)} taken as staged{follows}"
        return rules.Reply(rules.OK, f"task {task.task_id} is released: {said}")


async def _limited(
    work: UnitOfWork, task: TaskRow, command: Command, grid: KnownGrid, parameters: Parameters
) -> rules.Reply | None:
    """The limits of retries: refused, or exhausted instead, unless they are to be ignored."""
    if command.details.get("ignore_hard_exhausted"):
        return None
    limits = parameters.filled(RetryLimits, vo=task.vo, names={"<label>": task.prod_source_label})
    if limits == RetryLimits():
        return None
    facts = await store_commands.retry_facts(work, task.task_id)
    if limits.ask_for_usage:
        queues = (await grid.grid(work.connection)).queues
        powers = {name: one.core_power_hs06 for name, one in queues.items() if one.core_power_hs06 > 0}
        facts = await store_commands.with_usage(work, task.task_id, facts, powers)
    too_often = refused_for(facts, limits)
    if too_often is not None:
        return rules.Reply(rules.IRRELEVANT, f"retry of task {task.task_id} is refused: {too_often}")
    why = exhausted_for(facts, limits)
    if why is None:
        return None
    reason = f"not retried: {why}"
    if task.status != "exhausted":
        await store.move(work, task.task_id, "toretry", reason)
        await store.move(work, task.task_id, "exhausted", reason, error_dialog=reason)
        work.emit(TaskCompleted(task_id=task.task_id, status="exhausted"))
    return rules.Reply(rules.OK, f"task {task.task_id} is exhausted, {reason}")


async def _closed(work: UnitOfWork, task: TaskRow) -> rules.Reply | None:
    """The refusal where the VO of the task may not read some input any more."""
    names = await store_commands.closed_input(work, task.task_id)
    said = f"task {task.task_id}: tasks of {task.vo} may not read {', '.join(names)} any more"
    return rules.Reply(rules.NOT_PERMITTED, said) if names else None
