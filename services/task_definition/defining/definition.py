"""registered -> defined -> assigning or ready; open input datasets are looked at again."""

from __future__ import annotations

from datetime import timedelta

from services.task_definition.defining.contents import Contents, InputTrouble
from services.task_definition.parameters import OPEN_DATASET_CHECK_S, WAIT_FOR_PENDING_S
from services.task_definition.policy.refine import (
    DefinitionFacts,
    DefinitionRefused,
    Outcome,
    Postponed,
    Refined,
    refiner_for,
)
from services.task_definition.policy.task_spec import TaskSpec, parse_task
from services.task_definition.policy.task_spec_problems import InvalidTask
from services.task_definition.store.definitions import DefinitionStore
from services.task_definition.store.tasks import TaskRow, TaskStore
from shared.catalogue.port import OPEN, Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskCompleted, TaskDefined, TaskReady, TaskRegistered, TaskReleased
from shared.states.task import TaskStatus

TO_REFINE: tuple[TaskStatus, ...] = ("registered", "rerefine", "staged")
#: a held task is looked at again after so many minutes, by priority (JEDI: waitForPending)
WAIT_MIN, WAIT_HIGH_PRIORITY_MIN, WAIT_HIGHEST_PRIORITY_MIN = 60, 30, 10


class Definition:
    """Handlers of `task.registered` and `task.released`."""

    def __init__(self, tasks: TaskStore, store: DefinitionStore, catalogue: Catalogue, parameters: Parameters) -> None:
        self._tasks, self._store, self._catalogue, self._parameters = tasks, store, catalogue, parameters
        self._contents = Contents(store, catalogue)

    async def on_task_registered(self, event: TaskRegistered, work: UnitOfWork) -> None:
        await self.define(work, event.task_id)

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        if event.status in (*TO_REFINE, "defined"):
            await self.define(work, event.task_id)

    async def define(self, work: UnitOfWork, task_id: int) -> None:
        """Bring the task on from wherever its definition stands; anything else is left alone."""
        task = await self._tasks.lock(work.connection, task_id)
        if task is None or task.status not in (*TO_REFINE, "defined"):
            return
        try:
            spec = parse_task(await self._tasks.parameters(work.connection, task_id))
        except InvalidTask as error:
            await self._break(work, task, f"its parameters are not valid: {error}")
            return
        outcome = await self._refine(work, spec, task)
        try:
            async with work.connection.transaction():
                outcome = await self._apply(work, task, spec, outcome)
        except InputTrouble as trouble:
            outcome = Postponed(trouble.reason) if trouble.temporary else DefinitionRefused(trouble.reason)
        if isinstance(outcome, Postponed):
            await self._hold(work, task, outcome.reason, self._wait_s(task))
        elif isinstance(outcome, DefinitionRefused):
            await self._break(work, task, outcome.reason)

    async def _refine(self, work: UnitOfWork, spec: TaskSpec, task: TaskRow) -> Outcome:
        names = sorted({name for item in spec.inputs for name in item.datasets()})
        datasets = await self._catalogue.find(work.connection, names)
        parent = None
        if task.parent_id is not None:
            parent = await self._tasks.status(work.connection, task.parent_id)
        return refiner_for(task.vo, task.prod_source_label)(spec, task.task_id, DefinitionFacts(datasets, parent))

    async def _apply(self, work: UnitOfWork, task: TaskRow, spec: TaskSpec, outcome: Outcome) -> Outcome:
        """Insert what was planned and move the task on. Raises InputTrouble."""
        if not isinstance(outcome, Refined):
            return outcome
        if task.status == "defined":
            await self._look_again(work, task, outcome)
            return outcome
        n_units = 1
        if task.status == "rerefine":
            await self._contents.extend(work, task, outcome)
        else:
            n_units = await self._contents.insert(work, task, outcome)
        await self._store.refined(work, task.task_id, outcome.split_rule)
        if n_units == 0:
            await self._tasks.move(work, task.task_id, "finishing", "its input is empty, and that is allowed")
            return outcome
        has_nucleus = task.nucleus is not None
        await self._go_on(work, task, "ready" if has_nucleus else outcome.next_status)
        return outcome

    async def _look_again(self, work: UnitOfWork, task: TaskRow, plan: Refined) -> None:
        """New files of open datasets; without any the task waits while a dataset stays open."""
        added = await self._contents.extend(work, task, plan)
        still_open = any(one.state == OPEN for one in plan.inputs if one.is_master)
        if added == 0 and still_open and plan.split_rule.get("runUntilClosed"):
            wait_s = self._parameters.read(OPEN_DATASET_CHECK_S)
            await self._hold(work, task, "its input is still open and has no new files", wait_s)
            return
        has_target = task.nucleus is not None or plan.next_status == "ready"
        await self._go_on(work, task, "ready" if has_target else "assigning")

    async def _go_on(self, work: UnitOfWork, task: TaskRow, status: TaskStatus) -> None:
        reason = "needs a nucleus" if status == "assigning" else "analysis or pre-assigned"
        if await self._tasks.move(work, task.task_id, status, reason, sources=["defined"]):
            ready = TaskReady(task_id=task.task_id, nucleus=task.nucleus)
            work.emit(TaskDefined(task_id=task.task_id) if status == "assigning" else ready)

    async def _hold(self, work: UnitOfWork, task: TaskRow, reason: str, wait_s: float) -> None:
        await self._tasks.move(
            work,
            task.task_id,
            "pending",
            reason,
            sources=[task.status],
            old_status=task.status,
            error_dialog=reason,
            retry_at=work.now + timedelta(seconds=wait_s),
        )

    async def _break(self, work: UnitOfWork, task: TaskRow, reason: str) -> None:
        """tobroken and, as nothing is left to clean up, broken."""
        if not await self._tasks.move(
            work, task.task_id, "tobroken", reason, sources=[task.status], error_dialog=reason
        ):
            return
        await self._tasks.move(work, task.task_id, "broken", reason, error_dialog=reason)
        await self._tasks.end(work.connection, task.task_id)
        work.emit(TaskCompleted(task_id=task.task_id, status="broken"))

    def _wait_s(self, task: TaskRow) -> float:
        minutes = WAIT_MIN
        if task.current_priority >= 900:
            minutes = WAIT_HIGHEST_PRIORITY_MIN if task.current_priority >= 950 else WAIT_HIGH_PRIORITY_MIN
        wait_s = self._parameters.read(WAIT_FOR_PENDING_S)
        return minutes * 60.0 if wait_s is None else wait_s
