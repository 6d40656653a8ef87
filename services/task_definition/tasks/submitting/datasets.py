"""What is wrong with the datasets that a submitted task names.

Input must be known (unless the task waits for it), in what its VO may read; output must be its owner's to write, and
belong to no other task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from services.task_definition.data.policy.scopes import ForeignName
from services.task_definition.tasks.policy.definition_plan import DefinitionFacts, DefinitionRefused, Outcome
from services.task_definition.tasks.policy.duplication import outputs_of, taken
from services.task_definition.tasks.policy.preprocessing import is_unknown_yet
from services.task_definition.tasks.policy.refine import refiner_for
from services.task_definition.tasks.policy.task_spec import TaskSpec
from services.task_definition.tasks.store import tasks as store
from services.task_definition.tasks.submitting.malformed import UNKNOWN_DATASET
from services.task_definition.tasks.submitting.rights import owner_of
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.catalogue.port import CatalogueReader, DatasetFacts
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem


@dataclass(frozen=True)
class KnownInput:
    """What the catalogue has of a task's input, and what refining the task would come to."""

    datasets: Mapping[str, DatasetFacts]
    outcome: Outcome


async def known_input(connection: asyncpg.Connection, catalogue: CatalogueReader, spec: TaskSpec) -> KnownInput:
    """Ask the catalogue once for all that a task reads."""
    names = sorted({name for item in spec.inputs for name in item.datasets()})
    known = await catalogue.find(connection, names, spec.parameters.vo)
    refiner = refiner_for(spec.parameters.vo, spec.parameters.prod_source_label)
    return KnownInput(known, refiner(spec, 0, DefinitionFacts(known)))


async def problems_of_datasets(
    connection: asyncpg.Connection,
    vos_outside: Collection[str],
    spec: TaskSpec,
    caller: Caller,
    known: KnownInput,
    foreign: Sequence[ForeignName],
    *,
    is_again: bool,
) -> list[FieldProblem]:
    """List problems of input, then of output; `is_again`: the task exists, and writes what it wrote.

    `foreign`: names of its output that are somebody else's.
    """
    given = spec.parameters
    found: list[FieldProblem] = []
    # A catalogue outside is asked when the task is defined: it says then what is unknown.
    waits = given.wait_input or given.parent_task_id is not None or finds_input(spec)
    if not waits and given.vo not in vos_outside:
        found += _unknown_input(spec, known)
    if is_again or foreign:
        return [*found, *foreign]
    writers = await store.writers(connection, [name for name in outputs_of(spec) if "$" not in name])
    return found + taken(
        spec,
        writers,
        owner_of(spec, caller),
        lambda one: access.DETAILS.allows(caller, Whose.of(one.user_name, one.vo)),
    )


async def problems_of_expressions(connection: asyncpg.Connection, spec: TaskSpec) -> list[FieldProblem]:
    """List expressions that select files and that PostgreSQL, not Python, cannot read."""
    found = []
    for index, item in enumerate(spec.parameters.job_parameters):
        for name, patterns in (("include", item.include), ("exclude", item.exclude)):
            for pattern in patterns or ():
                trouble = await store.expression_problem(connection, pattern)
                if trouble is not None:
                    allowed = f"allowed: a regular expression of PostgreSQL ({trouble})"
                    found.append(problem(f"jobParameters.{index}.{name}", pattern, allowed))
    return found


def finds_input(spec: TaskSpec) -> bool:
    """Whether a pre-processing job finds out what the task reads (preproSpec, %%NAME%%)."""
    return any(is_unknown_yet(name) for item in spec.inputs for name in item.datasets())


def _unknown_input(spec: TaskSpec, known: KnownInput) -> list[FieldProblem]:
    """Input that the catalogue does not have, or has for other VOs: that is told alike."""
    found = [
        problem(f"jobParameters.{index}.dataset", name, UNKNOWN_DATASET)
        for index, item in enumerate(spec.parameters.job_parameters)
        if item.param_type == "input"
        for name in item.datasets()
        if name not in known.datasets and not _left_out(spec, index, known.datasets)
    ]
    found += _wrong_scopes(spec, known.datasets)
    if not found and isinstance(known.outcome, DefinitionRefused):  # what refining would give the task up for
        found.append(problem("jobParameters", None, known.outcome.reason))
    return found


def _wrong_scopes(spec: TaskSpec, known: Mapping[str, DatasetFacts]) -> list[FieldProblem]:
    """Scopes stated in front of input that the catalogue has in another one."""
    found = []
    for index, item in enumerate(spec.parameters.job_parameters):
        if item.param_type != "input":
            continue
        for stated, name in zip((item.dataset or "").split(","), item.datasets(), strict=False):
            scope, colon, _ = stated.strip().rpartition(":")
            if colon and name in known and known[name].scope != scope:
                allowed = f"the catalogue has it in another scope; allowed: {known[name].scope}:{name}, or no scope"
                found.append(problem(f"jobParameters.{index}.dataset", stated.strip(), allowed))
    return found


def _left_out(spec: TaskSpec, index: int, known: Mapping[str, DatasetFacts]) -> bool:
    """Whether unknown datasets of an item do no harm: ignoreMissingInDS, and another of the item is known."""
    item = spec.parameters.job_parameters[index]
    return spec.parameters.ignore_missing_in_ds and any(name in known for name in item.datasets())
