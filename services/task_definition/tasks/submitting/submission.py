"""Checks a submitted task as a whole: fields, names, datasets, places, shares, rights.

Every problem is listed at once, and nothing is written unless there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg

from services.task_definition.data.owning import caller_as_writer, foreign_names, take_names
from services.task_definition.data.policy.scopes import ForeignName
from services.task_definition.data.store.known_vos import known_vos
from services.task_definition.parameters import ANALYSIS_SCRIPTS, ANALYSIS_SCRIPTS_URL
from services.task_definition.tasks.policy.ability import never_runs
from services.task_definition.tasks.policy.classes import Classes
from services.task_definition.tasks.policy.client_defaults import allowed_to_users, with_client_defaults
from services.task_definition.tasks.policy.coherence import incoherent, no_share_takes
from services.task_definition.tasks.policy.could_run import could_run, typical_job
from services.task_definition.tasks.policy.definition_plan import Refined
from services.task_definition.tasks.policy.known_vos import unknown_vo
from services.task_definition.tasks.policy.owners import MOST_ATTEMPTS_BY_OWNER
from services.task_definition.tasks.policy.shares import resource_type_for, share_for
from services.task_definition.tasks.policy.task_parameters.table import warnings_of
from services.task_definition.tasks.policy.task_spec import TaskSpec, task_in_steps
from services.task_definition.tasks.policy.task_spec_problems import InvalidTask
from services.task_definition.tasks.policy.unit_limits import limits_for, unit_problems
from services.task_definition.tasks.policy.user_defaults import UserDefaults, with_user_defaults
from services.task_definition.tasks.policy.work_queue_of_task import named_work_queue
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.store.known_sharing import KnownSharing
from services.task_definition.tasks.store.tasks import SameName
from services.task_definition.tasks.submitting.datasets import (
    KnownInput,
    known_input,
    problems_of_datasets,
    problems_of_expressions,
)
from services.task_definition.tasks.submitting.malformed import (
    duplicate_name,
    problems_of_readable_parts,
    unreadable_requirements,
)
from services.task_definition.tasks.submitting.names import foreign_task_name, outputs_wanted
from services.task_definition.tasks.submitting.places import problems_of_places
from services.task_definition.tasks.submitting.references import problems_of_references
from services.task_definition.tasks.submitting.resubmission import Resubmission, continued
from services.task_definition.tasks.submitting.rights import may_submit_for, owner_of, rights_missing, secrets_asked_of
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.catalogue.port import Catalogue
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


@dataclass(frozen=True)
class Submitted:
    """Accepted: the id of the new task (None on a dry run), and what it would make.

    `is_again`: a task that existed goes on; the facts say what it changed. `warnings`: what it says and nothing is done
    for. `has_series`: whether who submits it has series of tasks.
    """

    task_id: int | None
    facts: dict[str, Any] = field(default_factory=dict)
    is_again: bool = False
    warnings: Sequence[str] = ()
    has_series: bool = False


class SubmissionRefused(Exception):
    """Refused: the code of the API and every problem.

    `secrets_of`: the other person whose secrets were asked for.
    """

    def __init__(self, problems: list[FieldProblem], secrets_of: str | None = None) -> None:
        self.secrets_of = secrets_of
        self.problems = tuple(dict.fromkeys(problems))
        only_name = {one.field for one in self.problems} == {"taskName"}
        is_duplicate = only_name and any("task of this name" in one.allowed for one in self.problems)
        self.code = DUPLICATE if is_duplicate else INVALID
        super().__init__("; ".join(str(one) for one in self.problems))


class Submission:
    """Takes tasks in."""

    def __init__(
        self,
        catalogue: Catalogue,
        grid: KnownGrid,
        settings: Parameters,
        resubmission: Resubmission,
        vos_outside: Collection[str],
    ) -> None:
        self._catalogue, self._grid, self._settings = catalogue, grid, settings
        self._resubmission, self._vos_outside, self._sharing = resubmission, vos_outside, KnownSharing()

    async def submit(
        self, work: UnitOfWork, parameters: Any, caller: Caller, *, parent_id: int | None = None, dry_run: bool = False
    ) -> Submitted:
        """Register a task, or say what it would be. Raises SubmissionRefused with every problem."""
        if parent_id is not None and isinstance(parameters, dict):
            parameters = {**parameters, "parent_tid": parent_id}
        completed, changed = self._as_of(caller, self.completed(parameters))
        spec = await self._parse(work.connection, completed, caller)
        name, vo = spec.parameters.task_name, spec.parameters.vo
        asked = await store.asked_by_submission(work.connection, name, vo, caller.name)
        sharing = await self._sharing.of_version(work.connection, asked.classes_version)
        resource_type = resource_type_for(spec, sharing.resource_types)
        gshare = share_for(spec, resource_type, sharing.nodes)
        existing = continued(spec, asked.same_name, owner_of(spec, caller))
        problems = [*incoherent(spec)]
        if not asked.is_known_vo:
            problems += await self._unknown_vo(work.connection, vo, caller)
        if gshare is None and not spec.parameters.gshare:
            problems += no_share_takes(spec, sharing.nodes)
        # what the VO of somebody else has is not told
        may_look = may_submit_for(caller, vo)
        looked = await known_input(work.connection, self._catalogue, spec) if may_look else None
        problems += await self._problems(work.connection, spec, caller, gshare, None if existing else asked.same_name)
        if looked is not None:
            problems += self._units(spec, looked)
            foreign = await _foreign(work, spec, caller, takes=existing is None and not dry_run)
            reader = (work.connection, self._vos_outside)
            problems += await problems_of_datasets(
                *reader, spec, caller, looked, foreign, is_again=existing is not None
            )
        if existing is not None:
            problems += await self._resubmission.problems(work, existing, spec)
        work_queue_id, unknown = named_work_queue(spec, sharing.work_queues, owner_of(spec, caller))
        problems += unknown
        if problems or looked is None:
            raise SubmissionRefused(problems, secrets_asked_of(spec, caller))
        if existing is not None:
            again = await self._submit_again(work, existing, spec, caller, dry_run=dry_run)
            return replace(again, has_series=asked.has_series)
        ability = await self._ability(work, spec, gshare or "", resource_type, looked)
        warnings = [*changed, *warnings_of(spec.parameters)]
        if dry_run:
            facts = _facts(looked, gshare or "", resource_type)
            warned = {"warnings": warnings} if warnings else {}
            return Submitted(None, facts | ability | warned)
        task_id = await _register(work, spec, caller, Classes(resource_type, gshare, work_queue_id))
        return Submitted(task_id, warnings=warnings, has_series=asked.has_series)

    def completed(self, parameters: Any) -> Any:
        """The JSON with what PanDA's client leaves to the server, and operators set for users."""
        scripts = self._settings.read(ANALYSIS_SCRIPTS_URL), self._settings.read(ANALYSIS_SCRIPTS)
        completed = with_client_defaults(parameters, *scripts)
        return with_user_defaults(completed, self._settings.filled(UserDefaults))

    def _as_of(self, caller: Caller, parameters: Any) -> tuple[Any, list[str]]:
        """The JSON of somebody without the role production, with what of it is changed."""
        vo = parameters.get("vo") if isinstance(parameters, Mapping) else None
        is_of_users = isinstance(vo, str) and not caller.may_for(vo, "production")
        return allowed_to_users(parameters) if is_of_users else (parameters, [])

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

    async def _parse(self, connection: asyncpg.Connection, parameters: Any, caller: Caller) -> TaskSpec:
        try:
            return await in_slices(task_in_steps(parameters))
        except InvalidTask as error:
            besides = await problems_of_readable_parts(
                connection, self._catalogue, parameters, caller, self._vos_outside
            )
            asked_of = None
            if isinstance(error.spec, TaskSpec):
                asked_of = secrets_asked_of(error.spec, caller)
                besides += rights_missing(error.spec, caller, self._most_attempts(error.spec))
                besides += await problems_of_references(connection, error.spec, caller)
                besides += await problems_of_places(connection, self._grid, error.spec)
            raise SubmissionRefused([*error.problems, *besides], asked_of) from None

    async def _unknown_vo(self, connection: asyncpg.Connection, vo: str, caller: Caller) -> list[FieldProblem]:
        """Refuse a VO that nothing names; all that are known are read for that alone."""
        if vo in self._vos_outside:
            return []
        return unknown_vo(vo, await known_vos(connection) | frozenset(self._vos_outside), caller)

    def _most_attempts(self, spec: TaskSpec) -> int:
        return self._settings.read(MOST_ATTEMPTS_BY_OWNER, vo=spec.parameters.vo)

    async def _problems(
        self,
        connection: asyncpg.Connection,
        spec: TaskSpec,
        caller: Caller,
        gshare: str | None,
        other: SameName | None,
    ) -> list[FieldProblem]:
        """Problems that grid, catalogue and shares show in a well-formed task; `other`: a task of its name."""
        found = rights_missing(spec, caller, self._most_attempts(spec))
        if spec.parameters.unique_task_name and other is not None:
            may_read = access.DETAILS.allows(caller, Whose.of(other.user_name, other.vo))
            found.append(duplicate_name(spec.parameters.task_name, other.task_id if may_read else None))
        if gshare is None and spec.parameters.gshare:
            found.append(problem("gshare", spec.parameters.gshare, "allowed: a leaf of the shares"))
        found += await problems_of_references(connection, spec, caller)
        found += await problems_of_places(connection, self._grid, spec)
        found += unreadable_requirements(spec.parameters.requirements)
        return found + await problems_of_expressions(connection, spec)

    def _units(self, spec: TaskSpec, looked: KnownInput) -> list[FieldProblem]:
        """Find more units of input than a task may have, as far as is known before its input is read."""
        most = limits_for(self._settings, spec.parameters.vo, is_analysis=spec.is_analysis)
        return unit_problems(spec, looked.outcome, looked.datasets, most)

    async def _ability(
        self, work: UnitOfWork, spec: TaskSpec, gshare: str, resource_type: str, looked: KnownInput
    ) -> dict[str, Any]:
        """How many queues could run the task. Raises SubmissionRefused if none ever could. Without a grid: unknown."""
        world = await self._grid.world(work.connection)
        if not len(world.columns):
            return {}
        names = {name for item in spec.inputs[:1] for name in item.datasets()}
        masters = [facts for name, facts in looked.datasets.items() if name in names]
        row = spec.columns() | {"split_rule": spec.split_rule(), "gshare": gshare, "resource_type": resource_type}
        files, events, size = (
            sum(getattr(one, name) for one in masters) for name in ("n_files", "n_events", "size_bytes")
        )
        try:
            decision = could_run(world, typical_job(row, files, events, size, work.now))
        except ValueError as error:
            raise SubmissionRefused([problem("task_parameters", None, str(error))]) from error
        ability = decision.summary()
        if not decision.chosen:
            raise SubmissionRefused([problem("task_parameters", None, never_runs(decision.reason(), ability))])
        return {"queues_that_could_run_it": ability["passed"], "ability": ability}


async def _register(work: UnitOfWork, spec: TaskSpec, caller: Caller, classes: Classes) -> int:
    """Insert the task, and tell of it. Raises SubmissionRefused where another one took its name meanwhile."""
    columns = {
        **spec.columns(),
        "user_name": owner_of(spec, caller),
        "submitted_by": caller.name,
        "parent_tid": spec.parameters.parent_task_id,
        "unique_name": spec.parameters.unique_task_name and not spec.allows_duplication,
        "split_rule": spec.split_rule(),
        "gshare": classes.gshare,
        "resource_type": classes.resource_type,
        "work_queue_id": classes.work_queue_id,
        **await _super_priority(work.connection, spec, owner_of(spec, caller)),
    }
    task_id = await store.insert(work, columns, spec.submitted)
    if task_id is None:
        raise SubmissionRefused([duplicate_name(spec.parameters.task_name, None)])
    await store.put_deadline(work, task_id, spec.parameters.ttcr_timestamp)
    work.emit(TaskRegistered(task_id=task_id))
    return task_id


async def _foreign(work: UnitOfWork, spec: TaskSpec, caller: Caller, *, takes: bool) -> list[ForeignName]:
    """List the names that a task would write and that are somebody else's.

    With `takes` scopes of nobody are its owner's from now on; a refusal gives the transaction up.
    """
    writer, outputs = caller_as_writer(caller, spec.parameters.vo, owner_of(spec, caller)), outputs_wanted(spec, 0)
    if takes:
        found = await take_names(work.connection, outputs, writer)
    else:
        found = await foreign_names(work.connection, outputs, writer)
    return [*found, *await foreign_task_name(work.connection, spec, writer)]


def _facts(looked: KnownInput, gshare: str, resource_type: str) -> dict[str, Any]:
    """What a dry run tells: share, class of work, datasets in and out."""
    facts: dict[str, Any] = {"gshare": gshare, "resource_type": resource_type}
    outcome = looked.outcome
    if isinstance(outcome, Refined):
        inputs = [looked.datasets[one.name] for one in outcome.inputs if one.name in looked.datasets]
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


async def _super_priority(connection: asyncpg.Connection, spec: TaskSpec, owner: str) -> dict[str, int]:
    """Analysis of super users, and of groups by who has super group privilege, jumps over other tasks."""
    has_group = bool(spec.parameters.working_group)
    letters = await store.grid_pref(connection, owner, spec.parameters.vo) if spec.is_analysis else ""
    if not is_super(letters, has_group=has_group):
        return {}
    row = spec.columns()
    return {name: max(SUPER_PRIORITY, row.get(name) or 0) for name in ("task_priority", "current_priority")}
