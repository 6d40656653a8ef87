"""The input of a task, when all of it is read: used for jobs, or the task waits, ends or is broken."""

from __future__ import annotations

from collections.abc import Sequence

from services.task_definition.parameters import OPEN_DATASET_CHECK_S
from services.task_definition.tasks.defining.common_index import keep_common_index
from services.task_definition.tasks.defining.contents import Contents
from services.task_definition.tasks.defining.stopping import checked_for_s, give_up, hold, stage
from services.task_definition.tasks.policy.commands import needs_nucleus
from services.task_definition.tasks.policy.input_read import InputRead, NotEnough, left_out, not_enough
from services.task_definition.tasks.policy.scouting import open_for_scouts
from services.task_definition.tasks.staging.staging import Staging
from services.task_definition.tasks.store import definitions as store_definitions
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.definitions import Loaded
from services.task_definition.tasks.store.tasks import TaskRow
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskDefined, TaskReady, TaskReleased
from shared.model.analysis import is_analysis
from shared.states.task import FINAL, TaskStatus


class InputUse:
    """Takes a task on from the end of its reading; its row is locked."""

    def __init__(self, contents: Contents, staging: Staging, parameters: Parameters) -> None:
        self._contents, self._staging, self._parameters = contents, staging, parameters

    async def use(self, work: UnitOfWork, task: TaskRow) -> None:
        """Use the input of a task of which all is read, or let the task say what is in the way."""
        if not await store_readings.state(work, task.task_id):
            return  # another has gone on with it
        if task.status in FINAL:
            await store_readings.end(work, task.task_id)
            return
        await keep_common_index(work, task.task_id)
        read = await store_readings.read_of(work, task.task_id)
        masters = [one.dataset_id for one in read if one.wanted.is_master]
        unusable = await store_readings.unusable(work, masters)
        trouble = not_enough(read, task.rules, unusable)
        if unusable.get("staging") and (refused := await self._staging.ask(work, task)):
            trouble = NotEnough(refused, (), temporary=False)
        if task.status == "defined" and trouble is not None:
            if trouble.is_staged:
                await stage(work, task, trouble.reason, self._parameters, trouble.dataset_ids)
            elif trouble.temporary:
                await hold(work, task, trouble.reason, self._parameters, trouble.dataset_ids)
            else:
                await give_up(work, task, trouble.reason, trouble.dataset_ids)
            await store_readings.end(work, task.task_id)
            return
        if task.status != "defined":
            await _break_useless(work, read)
        await self._loaded(work, task, read)
        await store_readings.end(work, task.task_id)
        if task.status != "defined":
            # Also where nothing is new: what ended while its input was being read waits for this to be over.
            await store.look_now(work, task.task_id)
            work.emit(TaskReleased(task_id=task.task_id, status=task.status, reason="its input was read again"))
            return
        await self._take_on(work, task, read, left_out(read, unusable))

    async def _loaded(self, work: UnitOfWork, task: TaskRow, read: Sequence[InputRead]) -> None:
        """Datasets are ready. Of a task that begins, the masters are opened for the scouts; later, what is new."""
        opened = {one.dataset_id: one.n_added if task.status == "defined" else 0 for one in read}
        masters = [one for one in read if one.wanted.is_master]
        if not any(one.n_opened for one in masters):
            split = any(one.wanted.events_per_unit for one in masters)
            counts = open_for_scouts(task.rules, [one.n_units for one in masters], split_by_events=split)
            opened |= {one.dataset_id: count for one, count in zip(masters, counts, strict=True)}
        loaded = [Loaded(i.dataset_id, opened[i.dataset_id], i.state, i.n_older, i.n_not_made) for i in read]
        await store_definitions.note_loaded(work, loaded, checked_for_s=checked_for_s(self._parameters))

    async def _take_on(self, work: UnitOfWork, task: TaskRow, read: Sequence[InputRead], left_out: str) -> None:
        """Take the task on to jobs, with what is `left_out`; without any it waits for open input, or finishes."""
        masters = [one for one in read if one.wanted.is_master]
        if (
            task.rules.runs_until_closed
            and any(one.is_open for one in masters)
            and not any(one.n_untaken for one in masters)
        ):
            wait_s = self._parameters.read(OPEN_DATASET_CHECK_S)
            await hold(work, task, "its input is still open and has no new files", self._parameters, wait_s=wait_s)
            return
        if masters and not any(one.n_units for one in masters):
            await store.move(work, task.task_id, "finishing", "its input is empty, and that is allowed")
            work.emit(TaskReleased(task_id=task.task_id, status="finishing", reason="its input is empty"))
            return
        await self._contents.register_outputs(work, task)
        for_analysis = is_analysis(task.task_type, task.prod_source_label)
        needed = needs_nucleus(is_analysis=for_analysis, nucleus=task.nucleus, site=task.site, cloud=task.cloud)
        await _go_on(work, task, "assigning" if needed else "ready", left_out)


async def _break_useless(work: UnitOfWork, read: Sequence[InputRead]) -> None:
    """Datasets of which no file is left that could be used, or was."""
    useless = [one.dataset_id for one in read if one.n_changed and not one.n_taken]
    if useless:
        await store_definitions.break_useless(work, useless)


async def _go_on(work: UnitOfWork, task: TaskRow, status: TaskStatus, left_out: str) -> None:
    reason = "needs a nucleus" if status == "assigning" else "analysis or pre-assigned"
    reason, dialog = (f"{reason}; {left_out}", left_out) if left_out else (reason, None)
    if await store.move(work, task.task_id, status, reason, sources=["defined"], error_dialog=dialog):
        ready = TaskReady(task_id=task.task_id, nucleus=task.nucleus)
        work.emit(TaskDefined(task_id=task.task_id) if status == "assigning" else ready)
