"""Checks a submitted task as a whole: fields, names, datasets, places, shares, rights.

Every problem is listed at once, and nothing is written unless there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from services.task_definition.parameters import ANALYSIS_SCRIPTS, ANALYSIS_SCRIPTS_URL
from services.task_definition.policy.client_defaults import with_client_defaults
from services.task_definition.policy.could_run import could_run, typical_job
from services.task_definition.policy.definition_plan import DefinitionFacts, DefinitionRefused, Refined
from services.task_definition.policy.duplication import outputs_of, taken
from services.task_definition.policy.output_places import places_of_outputs, unknown_places
from services.task_definition.policy.refine import refiner_for
from services.task_definition.policy.shares import resource_type_for, share_for
from services.task_definition.policy.task_spec import TaskSpec, task_in_steps
from services.task_definition.policy.task_spec_problems import InvalidTask
from services.task_definition.policy.work_queues import named_work_queue
from services.task_definition.store.tasks import SameName, TaskStore
from services.task_definition.submitting.malformed import (
    UNKNOWN_DATASET,
    duplicate_name,
    problems_of_readable_parts,
    unreadable_requirements,
)
from services.task_definition.submitting.resubmission import Resubmission
from services.task_definition.submitting.rights import owner_of, rights_missing
from shared.auth import Caller
from shared.catalogue.port import Catalogue, DatasetFacts
from shared.config.parameters import Parameters
from shared.db.unit_of_work import UnitOfWork
from shared.events import TaskRegistered
from shared.model.grid_preferences import is_super
from shared.model.priorities import SUPER_PRIORITY
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem
from shared.snapshot import KnownGrid
from shared.web.slices import in_slices

#: reply codes of a refused submission (PanDA client: task/submit); 3 means something else to the client
DUPLICATE, INVALID = 1, 2
TASK_SEQUENCE = "task_ids"


@dataclass(frozen=True)
class Submitted:
    """Accepted: the id of the new task (None on a dry run), and what it would make.

    `is_again`: a task that existed goes on; the facts say what it changed.
    """

    task_id: int | None
    facts: dict[str, Any] = field(default_factory=dict)
    is_again: bool = False


class SubmissionRefused(Exception):
    """Refused: the code of the API and every problem."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        only_name = {one.field for one in self.problems} == {"taskName"}
        is_duplicate = only_name and any("task of this name" in one.allowed for one in self.problems)
        self.code = DUPLICATE if is_duplicate else INVALID
        super().__init__("; ".join(str(one) for one in self.problems))


class Submission:
    """Takes tasks in."""

    def __init__(
        self,
        tasks: TaskStore,
        catalogue: Catalogue,
        grid: KnownGrid,
        settings: Parameters,
        resubmission: Resubmission,
        vos_outside: Collection[str],
    ) -> None:
        self._tasks, self._catalogue, self._grid, self._settings = tasks, catalogue, grid, settings
        self._resubmission, self._vos_outside = resubmission, vos_outside

    async def submit(
        self, work: UnitOfWork, parameters: Any, caller: Caller, *, parent_id: int | None = None, dry_run: bool = False
    ) -> Submitted:
        """Register a task, or say what it would be. Raises SubmissionRefused with every problem."""
        if parent_id is not None and isinstance(parameters, dict):
            parameters = {**parameters, "parent_tid": parent_id}
        spec = await self._parse(work.connection, self.completed(parameters), caller)
        sharing = await self._tasks.sharing(work.connection)
        resource_type = resource_type_for(spec, sharing.resource_types)
        gshare = share_for(spec, resource_type, sharing.nodes)
        existing = await self._resubmission.find(work, spec, owner_of(spec, caller))
        problems = await self._problems(work.connection, spec, caller, gshare, existing)
        if existing is not None:
            problems += await self._resubmission.problems(work, existing, spec)
        work_queue_id, unknown = named_work_queue(spec, sharing.work_queues)
        problems += unknown
        if problems:
            raise SubmissionRefused(problems)
        if existing is not None:
            return await self._submit_again(work, existing, spec, caller, dry_run=dry_run)
        ability = await self._ability(work, spec, gshare or "", resource_type)
        if dry_run:
            facts = await self._facts(work.connection, spec, gshare or "", resource_type)
            return Submitted(None, facts | ability)
        [task_id] = await work.next_ids(TASK_SEQUENCE, 1)
        columns = {
            **spec.columns(),
            "user_name": owner_of(spec, caller),
            "parent_tid": spec.parameters.parent_task_id,
            "unique_name": spec.parameters.unique_task_name and not spec.allows_duplication,
            "split_rule": spec.split_rule(),
            "gshare": gshare,
            "resource_type": resource_type,
            "work_queue_id": work_queue_id,
            **await self._super_priority(work.connection, spec, owner_of(spec, caller)),
        }
        if not await self._tasks.insert(work.connection, task_id, columns, spec.submitted):
            raise SubmissionRefused([duplicate_name(spec.parameters.task_name, None)])
        work.emit(TaskRegistered(task_id=task_id))
        return Submitted(task_id)

    def completed(self, parameters: Any) -> Any:
        """The JSON with what PanDA's client leaves to the server."""
        scripts = self._settings.read(ANALYSIS_SCRIPTS_URL), self._settings.read(ANALYSIS_SCRIPTS)
        return with_client_defaults(parameters, *scripts)

    async def _submit_again(
        self, work: UnitOfWork, existing: SameName, spec: TaskSpec, caller: Caller, *, dry_run: bool
    ) -> Submitted:
        """The task of this name goes on. Raises SubmissionRefused."""
        if dry_run:
            return Submitted(None, {"submitted_again": existing.task_id})
        problems, changed = await self._resubmission.carry_out(work, existing, spec, caller)
        if problems:
            raise SubmissionRefused(problems)
        return Submitted(existing.task_id, {"changed": changed}, is_again=True)

    async def _super_priority(self, connection: asyncpg.Connection, spec: TaskSpec, owner: str) -> dict[str, int]:
        """Analysis of super users, and of groups by who has super group privilege, jumps over other tasks."""
        has_group = bool(spec.parameters.working_group)
        if not spec.is_analysis or not is_super(await self._tasks.grid_pref(connection, owner), has_group=has_group):
            return {}
        row = spec.columns()
        return {name: max(SUPER_PRIORITY, row.get(name) or 0) for name in ("task_priority", "current_priority")}

    async def _parse(self, connection: asyncpg.Connection, parameters: Any, caller: Caller) -> TaskSpec:
        try:
            return await in_slices(task_in_steps(parameters))
        except InvalidTask as error:
            besides = await problems_of_readable_parts(
                connection, self._tasks, self._catalogue, parameters, self._vos_outside
            )
            if isinstance(error.spec, TaskSpec):
                besides += rights_missing(error.spec, caller)
                besides += await self._parent(connection, error.spec)
                besides += await self._places(connection, error.spec)
            raise SubmissionRefused([*error.problems, *besides]) from None

    async def _problems(
        self,
        connection: asyncpg.Connection,
        spec: TaskSpec,
        caller: Caller,
        gshare: str | None,
        existing: SameName | None,
    ) -> list[FieldProblem]:
        """Problems that grid, catalogue and shares show in a well-formed task."""
        found = rights_missing(spec, caller)
        if spec.parameters.unique_task_name and existing is None:
            other = await self._tasks.same_name(connection, spec.parameters.task_name)
            if other is not None:
                found.append(duplicate_name(spec.parameters.task_name, other.task_id))
        if gshare is None:
            wanted = spec.parameters.gshare
            allowed = "allowed: a leaf of the shares" if wanted else "no leaf of the shares matches this task"
            found.append(problem("gshare", wanted, allowed))
        found += await self._parent(connection, spec)
        found += await self._places(connection, spec)
        found += unreadable_requirements(spec.parameters.requirements)
        found += await self._expressions(connection, spec)
        return found + await self._datasets(connection, spec, caller, existing)

    async def _parent(self, connection: asyncpg.Connection, spec: TaskSpec) -> list[FieldProblem]:
        parent_id = spec.parameters.parent_task_id
        if parent_id is None:
            return []
        status = await self._tasks.status(connection, parent_id)
        if status is None:
            return [problem("parent_tid", parent_id, "allowed: the id of a task that exists")]
        if status in ("failed", "broken", "aborted"):
            return [problem("parent_tid", parent_id, f"the parent is {status}")]
        return []

    async def _places(self, connection: asyncpg.Connection, spec: TaskSpec) -> list[FieldProblem]:
        """Sites, queues and the nucleus must be of the grid, if one is loaded."""
        given = spec.parameters
        named = [("site", name.strip()) for name in (given.site or "").split(",") if name.strip()]
        named += [("includedSite", name) for name in given.included_site or ()]
        named += [("excludedSite", name) for name in given.excluded_site or ()]
        nucleus = [("nucleus", given.nucleus)] if given.nucleus else []
        wanted = places_of_outputs(spec)
        if not named and not nucleus and not wanted:
            return []
        grid = await self._grid.grid(connection)
        found = [
            problem(field, name, "allowed: a site or queue of the grid")
            for field, name in named
            if not grid.has_place(name)
        ]
        found += [
            problem(field, name, "allowed: a nucleus of the grid")
            for field, name in nucleus
            if not grid.has_nucleus(name)
        ]
        return found + (unknown_places(grid, wanted) if grid.sites else [])

    async def _expressions(self, connection: asyncpg.Connection, spec: TaskSpec) -> list[FieldProblem]:
        """The expressions that select files are PostgreSQL's, not Python's."""
        found = []
        for index, item in enumerate(spec.parameters.job_parameters):
            for name, patterns in (("include", item.include), ("exclude", item.exclude)):
                for pattern in patterns or ():
                    trouble = await self._tasks.expression_problem(connection, pattern)
                    if trouble is not None:
                        allowed = f"allowed: a regular expression of PostgreSQL ({trouble})"
                        found.append(problem(f"jobParameters.{index}.{name}", pattern, allowed))
        return found

    async def _datasets(
        self, connection: asyncpg.Connection, spec: TaskSpec, caller: Caller, existing: SameName | None
    ) -> list[FieldProblem]:
        """Input must be known (unless the task waits for it); output must belong to no other task."""
        found: list[FieldProblem] = []
        given = spec.parameters
        inputs = [
            (index, name)
            for index, item in enumerate(given.job_parameters)
            if item.param_type == "input"
            for name in item.datasets()
        ]
        # A catalogue outside is asked when the task is defined: it says then what is unknown.
        if not given.wait_input and given.parent_task_id is None and given.vo not in self._vos_outside:
            known = await self._catalogue.find(connection, sorted({name for _, name in inputs}))
            found += [
                problem(f"jobParameters.{index}.dataset", name, UNKNOWN_DATASET)
                for index, name in inputs
                if name not in known and not _left_out(spec, index, known)
            ]
            found += _cannot_be_refined(spec, DefinitionFacts(known)) if not found else []
        if existing is not None:
            return found
        writers = await self._tasks.writers(connection, [name for name in outputs_of(spec) if "$" not in name])
        return found + taken(spec, writers, owner_of(spec, caller))

    async def _ability(self, work: UnitOfWork, spec: TaskSpec, gshare: str, resource_type: str) -> dict[str, Any]:
        """How many queues could run the task. Raises SubmissionRefused if none ever could. Without a grid: unknown."""
        world = await self._grid.world(work.connection)
        if not len(world.columns):
            return {}
        names = sorted({name for item in spec.inputs[:1] for name in item.datasets()})
        masters = list((await self._catalogue.find(work.connection, names)).values())
        row = spec.columns() | {"split_rule": spec.split_rule(), "gshare": gshare, "resource_type": resource_type}
        files, events, size = (
            sum(getattr(one, name) for one in masters) for name in ("n_files", "n_events", "size_bytes")
        )
        try:
            decision = could_run(world, typical_job(row, files, events, size, work.now))
        except ValueError as error:
            raise SubmissionRefused([problem("task_parameters", None, str(error))]) from error
        if not decision.chosen:
            raise SubmissionRefused(
                [problem("task_parameters", None, f"no queue could ever run this task: {decision.reason()}")]
            )
        ability = decision.summary()
        return {"queues_that_could_run_it": ability["passed"], "ability": ability}

    async def _facts(
        self, connection: asyncpg.Connection, spec: TaskSpec, gshare: str, resource_type: str
    ) -> dict[str, Any]:
        """What a dry run tells: share, class of work, datasets in and out."""
        names = sorted({name for item in spec.inputs for name in item.datasets()})
        known = await self._catalogue.find(connection, names)
        outcome = refiner_for(spec.parameters.vo, spec.parameters.prod_source_label)(spec, 0, DefinitionFacts(known))
        facts: dict[str, Any] = {"gshare": gshare, "resource_type": resource_type}
        if isinstance(outcome, Refined):
            inputs = [known[one.name] for one in outcome.inputs if one.name in known]
            facts |= {
                "next_status": outcome.next_status,
                "inputs": [
                    {"dataset": one.name, "files": one.n_files, "bytes": one.size_bytes, "events": one.n_events}
                    for one in inputs
                ],
                "outputs": [one.name for one in outcome.outputs.datasets],
                "split_rule": outcome.split_rule,
                "expected_jobs": None if outcome.pseudo is None else outcome.pseudo.n_rows,
            }
        return facts


def _left_out(spec: TaskSpec, index: int, known: Mapping[str, DatasetFacts]) -> bool:
    """Whether unknown datasets of an item do no harm: ignoreMissingInDS, and another of the item is known."""
    item = spec.parameters.job_parameters[index]
    return spec.parameters.ignore_missing_in_ds and any(name in known for name in item.datasets())


def _cannot_be_refined(spec: TaskSpec, world: DefinitionFacts) -> list[FieldProblem]:
    """What refining would give the task up for."""
    outcome = refiner_for(spec.parameters.vo, spec.parameters.prod_source_label)(spec, 0, world)
    return [problem("jobParameters", None, outcome.reason)] if isinstance(outcome, DefinitionRefused) else []
