"""registered -> defined -> assigning or ready; open input datasets are looked at again.

Refining inserts the datasets (JEDI: Task Refiner). Their contents are read in slices; small input at once. When all is
read, the task goes on, waits, or is broken (JEDI: Contents Feeder).
"""

from __future__ import annotations

from services.task_definition.data.policy.outside import not_looked_up
from services.task_definition.data.telling import Telling
from services.task_definition.data.wishing import Wishes
from services.task_definition.tasks.defining.contents import Contents
from services.task_definition.tasks.defining.preprocessing import Redefinition
from services.task_definition.tasks.defining.reading import ContentsReader
from services.task_definition.tasks.defining.stopping import give_up, hold
from services.task_definition.tasks.defining.using import InputUse
from services.task_definition.tasks.policy.definition_plan import (
    DefinitionFacts,
    DefinitionRefused,
    Outcome,
    Postponed,
    Refined,
)
from services.task_definition.tasks.policy.duplication import outputs_of, taken
from services.task_definition.tasks.policy.refine import FOLLOWED_IF_KNOWN, refiner_for
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.policy.unit_limits import UnitLimits, limits_for, within
from services.task_definition.tasks.staging.staging import Staging
from services.task_definition.tasks.store import definitions as store_definitions
from services.task_definition.tasks.store import readings as store_readings
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.tasks import TaskRow
from shared.catalogue.port import Catalogue
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskRegistered, TaskReleased
from shared.model.analysis import is_analysis
from shared.states.task import TaskStatus
from shared.task.stored import with_rules

TO_REFINE: tuple[TaskStatus, ...] = ("registered", "rerefine", "staged")
#: tasks that go on with their input in one transaction
GO_ON_AT_MOST = 1


class OutputTaken(Exception):
    """Another task writes a dataset of this one; everything inserted so far is rolled back."""


class Definition:
    """Handlers of `task.registered` and `task.released`, and the periodic reading of input."""

    def __init__(
        self,
        catalogue: Catalogue,
        parameters: Parameters,
        reader: ContentsReader,
        wishes: Wishes,
        staging: Staging,
        telling: Telling,
    ) -> None:
        self._parameters = parameters
        self._catalogue, self._contents = catalogue, Contents(catalogue, wishes)
        self._reader, self._wishes = reader, wishes
        self._redefinition = Redefinition(telling)
        self._input = InputUse(self._contents, staging, parameters)
        self.compare_unknown = self._contents.compare_unknown

    async def on_task_registered(self, event: TaskRegistered, work: UnitOfWork) -> None:
        await self.define(work, event.task_id)

    async def on_task_released(self, event: TaskReleased, work: UnitOfWork) -> None:
        if event.status in (*TO_REFINE, "defined"):
            await self.define(work, event.task_id)

    async def read_on(self, work: UnitOfWork) -> bool:
        """Periodic: one slice of some task's input, or what follows when all is read.

        Whether there is more to do.
        """
        for task_id in await store_readings.tasks_read(work, GO_ON_AT_MOST):
            task = await store.lock(work, task_id)
            if task is not None:
                await self._input.use(work, task)
            return True
        part = await self._reader.read_slice(work)
        if part is None:
            await store_readings.drop_ended(work)
        return part is not None and part.got_on

    async def define(self, work: UnitOfWork, task_id: int) -> None:
        """Bring the task on from wherever its definition stands; anything else is left alone."""
        task = await store.lock(work, task_id)
        if task is None or task.status not in (*TO_REFINE, "defined"):
            return
        is_read = await store_readings.state(work, task_id)
        if task.status == "defined" and is_read is not None:
            if is_read:
                await self._input.use(work, task)
            return
        await self._refine(work, task)

    async def _refine(self, work: UnitOfWork, task: TaskRow) -> None:
        """Insert what is planned, read the first slice of the input, and go on if that was all."""
        try:
            spec = parse_task(await store.parameters(work.connection, task.task_id))
        except InvalidTask as error:
            await give_up(work, task, f"its parameters are not valid: {error}")
            return
        parent = await self._status_of_parent(work, task)
        if self._redefinition.needs_job(task):
            outcome: Outcome | None = await self._redefinition.begin(work, task, spec, parent)
            if outcome is None:
                return
        else:
            found = await self._redefinition.take_returned(work, task, spec)
            if isinstance(found, str):
                await give_up(work, task, found)
                return
            task, spec = found
            if not await self._is_known(work, spec, task):
                return
            outcome = await self._outcome(work, spec, task, parent)
        if isinstance(outcome, Postponed):
            unknown = await store_definitions.unknown_inputs(work, task.task_id)
            await hold(work, task, outcome.reason, self._parameters, unknown)
            return
        if isinstance(outcome, DefinitionRefused):
            unknown = await store_definitions.unknown_inputs(work, task.task_id)
            await give_up(work, task, outcome.reason, unknown)
            return
        try:
            async with work.connection.transaction():
                await self._put(work, task, outcome, parent)
                await self._share_outputs(work, task, spec)
        except OutputTaken as trouble:
            await give_up(work, task, str(trouble))
            return
        if task.status in TO_REFINE:
            state = task.rules.preprocessing or outcome.rules.preprocessing
            await store_definitions.refine(work, task.task_id, with_rules(outcome.split_rule, preprocessing=state))
        part = await self._reader.read_slice(work, task.task_id)
        if part is not None and part.is_read:
            again = await store.lock(work, task.task_id)
            assert again is not None
            await self._input.use(work, again)

    async def _share_outputs(self, work: UnitOfWork, task: TaskRow, spec: TaskSpec) -> None:
        """Datasets that another task writes too: refused, or open again. Raises OutputTaken.

        Two such tasks wait for each other here, with their rows inserted: the second one sees those of the first.
        """
        if task.status != "registered":
            return
        names = outputs_of(spec, task.task_id)
        await store.lock_names(work, names)
        writers = await store.writers(work.connection, names, besides=task.task_id)
        problems = taken(spec, writers, task.user_name)
        if problems:
            raise OutputTaken("; ".join(str(one) for one in problems))
        shared = sorted({one.dataset_name for one in writers})
        await self._catalogue.reopen(work.connection, shared)
        await self._wishes.reopen(work, task.task_id, task.vo, shared)

    async def _is_known(self, work: UnitOfWork, spec: TaskSpec, task: TaskRow) -> bool:
        """Whether a catalogue outside was asked for the input; else it is, and the task waits for it."""
        names = sorted({name for item in spec.inputs for name in item.datasets()})
        if self._wishes.is_outside(task.vo) and (refused := not_looked_up(names, task.vo)):
            await give_up(work, task, refused)
            return False
        unread = await self._wishes.unread(work, task.task_id, task.vo, names)
        reason = next((reason for reason in unread.values() if reason), None)
        if reason is not None:
            await self.hold_unread(work, task.task_id, reason)
        return not unread

    async def hold_unread(self, work: UnitOfWork, task_id: int, reason: str) -> None:
        """A catalogue outside did not tell of the input: the task waits, and says why."""
        task = await store.lock(work, task_id)
        if task is not None and task.status in (*TO_REFINE, "defined"):
            await hold(work, task, f"the catalogue of {task.vo}: {reason}", self._parameters)

    async def read_again(self, work: UnitOfWork, task: TaskRow) -> None:
        """Begin to read the input of a task that uses it.

        Of a dataset that the catalogue has lost, all that is left is lost.
        """
        spec = parse_task(await store.parameters(work.connection, task.task_id))
        parent = await self._status_of_parent(work, task)
        outcome = await self._outcome(work, spec, task, parent)
        if isinstance(outcome, Refined):
            await self._put(work, task, outcome, parent)
        await self.compare_unknown(work, task)

    async def _status_of_parent(self, work: UnitOfWork, task: TaskRow) -> TaskStatus | None:
        return None if task.parent_id is None else await store.status(work.connection, task.parent_id)

    async def _outcome(self, work: UnitOfWork, spec: TaskSpec, task: TaskRow, parent: TaskStatus | None) -> Outcome:
        names = sorted({name for item in spec.inputs for name in item.datasets()})
        datasets = await self._catalogue.find(work.connection, names, task.vo)
        outcome = refiner_for(task.vo, task.prod_source_label)(spec, task.task_id, DefinitionFacts(datasets, parent))
        return within(outcome, datasets, self._most_units(task))

    def _most_units(self, task: TaskRow) -> UnitLimits:
        return limits_for(self._parameters, task.vo, is_analysis=is_analysis(task.task_type, task.prod_source_label))

    async def _put(self, work: UnitOfWork, task: TaskRow, plan: Refined, parent: TaskStatus | None) -> None:
        parent_works, most = parent is not None and parent not in FOLLOWED_IF_KNOWN, self._most_units(task)
        await self._contents.put(work, task, plan, parent_works=parent_works, most=most)
