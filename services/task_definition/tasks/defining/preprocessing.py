"""Tasks with a pre-processing job: made ready for it, and refined again with what it returned.

Source: JEDI, Task status (topreprocess, preprocessing).
"""

from __future__ import annotations

from services.task_definition.data.owning import take_names
from services.task_definition.data.telling import Telling
from services.task_definition.tasks.announcing import emit_for_status
from services.task_definition.tasks.policy.definition_plan import DefinitionRefused, Postponed
from services.task_definition.tasks.policy.outputs import preprocessing_lines
from services.task_definition.tasks.policy.preprocessing import is_due, with_returned
from services.task_definition.tasks.policy.refine import held_by_parent
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.reclassifying import reclassify
from services.task_definition.tasks.store import definitions as store_definitions
from services.task_definition.tasks.store import preprocessing as own
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.definitions import NewDataset
from services.task_definition.tasks.store.tasks import TaskRow
from services.task_definition.tasks.submitting.names import outputs_wanted, task_as_writer
from shared.db.unit_of_work import UnitOfWork
from shared.model.dataset_types import PREPROCESS_INPUT
from shared.states.task import TaskStatus

DATASET_SEQUENCE = "dataset_ids"
#: before anything of the task is defined
TO_PREPROCESS: tuple[TaskStatus, ...] = ("registered", "rerefine")


class Redefinition:
    """The row of the task is held."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling

    def needs_job(self, task: TaskRow) -> bool:
        """Whether the task is at its beginning and its pre-processing is not done."""
        return task.status in TO_PREPROCESS and is_due(task.rules)

    async def begin(
        self, work: UnitOfWork, task: TaskRow, spec: TaskSpec, parent: TaskStatus | None
    ) -> Postponed | DefinitionRefused | None:
        """registered or rerefine -> topreprocess, with one unit that counts the attempts of the job.

        What its parent has against it; None: it was done.
        """
        held = held_by_parent(spec, parent)
        if held is not None:
            return held
        rows = await store_definitions.datasets(work, task.task_id)
        if not any(row["type"] == PREPROCESS_INPUT for row in rows):
            [dataset_id] = await work.next_ids(DATASET_SEQUENCE, 1)
            name = f"preprocess_{task.task_id}"
            new = NewDataset(dataset_id, name, PREPROCESS_INPUT, "PREPROCESS", state="frozen")
            await store_definitions.insert_dataset(work, task.task_id, task.vo, new)
            await own.insert_unit(work, task, dataset_id)
        await store_definitions.put_command_lines(work, task.task_id, preprocessing_lines(spec, task.task_id))
        reason = "its pre-processing job finds out how it is to be defined"
        if await store.move(work, task.task_id, "topreprocess", reason, sources=[task.status]):
            emit_for_status(work, task.task_id, "topreprocess", reason)
        return None

    async def take_returned(self, work: UnitOfWork, task: TaskRow, spec: TaskSpec) -> tuple[TaskRow, TaskSpec] | str:
        """The task with what its pre-processing job returned, once; or why that cannot be used.

        What the task writes then must be in scopes that its submission was allowed, or its owner's.
        """
        found = await self._returned(work, task, spec)
        if isinstance(found, str):
            return found
        writer = task_as_writer(task, spec)
        foreign = await take_names(work.connection, outputs_wanted(found[1], task.task_id), writer)
        await self._telling.tell_with(work, task.user_name, "task", foreign)
        return "; ".join(str(one) for one in foreign) if foreign else found

    async def _returned(self, work: UnitOfWork, task: TaskRow, spec: TaskSpec) -> tuple[TaskRow, TaskSpec] | str:
        """A task without such a job, or that took its values before, is as it is."""
        metadata = await own.take_result(work, task.task_id)
        if metadata is None:
            return task, spec
        await own.take_out_unit(work, task.task_id)
        parameters = with_returned(spec.submitted, metadata)
        if isinstance(parameters, str):
            return parameters
        if parameters == spec.submitted:
            return task, spec
        try:
            found = parse_task(parameters)
        except InvalidTask as error:
            return f"what its pre-processing job returned makes no task: {error}"
        await own.change(work, task.task_id, parameters, found.columns())
        await reclassify(work, task.task_id)
        again = await store.lock(work, task.task_id)
        assert again is not None
        return again, found
