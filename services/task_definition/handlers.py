"""Which event goes to which handler; the handlers themselves are beside what they decide."""

from __future__ import annotations

from services.task_definition.data.registering import Data
from services.task_definition.tasks.commanding.commands import Commands
from services.task_definition.tasks.completing import Completion
from services.task_definition.tasks.defining.definition import Definition
from services.task_definition.tasks.hastening import on_task_order_requested
from services.task_definition.tasks.notifying.noting import Notices
from services.task_definition.tasks.placing import on_task_site_requested
from services.task_definition.tasks.reclassifying import on_task_measured
from shared.db.unit_of_work import UnitOfWork
from shared.events import (
    Event,
    OutputsProduced,
    TaskCommandRequested,
    TaskCompleted,
    TaskMeasured,
    TaskOrderRequested,
    TaskPrepared,
    TaskProgressed,
    TaskRegistered,
    TaskReleased,
    TaskSiteRequested,
    TransfersRequested,
)
from shared.runtime.service import Handler


class Handlers:
    """The work of this service."""

    def __init__(
        self, definition: Definition, completion: Completion, commands: Commands, data: Data, notices: Notices
    ) -> None:
        self._definition, self._completion, self._commands, self._data = definition, completion, commands, data
        self._notices = notices

    def work(self) -> list[tuple[type[Event], Handler]]:
        """One queue for each pair."""
        return [
            (TaskRegistered, self._definition.on_task_registered),
            (TaskReleased, self.on_task_released),
            (TaskProgressed, self.on_task_progressed),
            (TaskMeasured, on_task_measured),
            (TaskPrepared, self._completion.on_task_prepared),
            (TaskCompleted, self.on_task_completed),
            (TaskCommandRequested, self._commands.on_task_command_requested),
            (TaskOrderRequested, on_task_order_requested),
            (TaskSiteRequested, on_task_site_requested),
            (OutputsProduced, self._data.on_outputs_produced),
            (TransfersRequested, self._data.on_transfers_requested),
        ]

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        """A task that was put back goes on with its definition or its end; other states are others' business."""
        await self._definition.on_task_released(event, work)
        await self._completion.on_task_released(event, work)

    async def on_task_progressed(self, event: TaskProgressed, work: UnitOfWork) -> None:
        """A task whose open input was worked on, or whose pre-processing is done, is defined again."""
        await self._completion.on_task_progressed(event, work)
        if event.status in ("defined", "registered"):
            await self._definition.define(work, event.task_id)

    async def on_task_completed(self, event: TaskCompleted, work: UnitOfWork) -> None:
        """Children of the task follow its end, and its owner is told."""
        await self._commands.on_task_completed(event, work)
        await self._notices.on_task_completed(event, work)
