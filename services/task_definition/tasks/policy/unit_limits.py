"""How many units of input a task may have: the database has a row for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.task_definition.tasks.policy.definition_plan import DefinitionRefused, InputDatasetPlan, Outcome, Refined
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.catalogue.port import DatasetFacts
from shared.config.parameter import Parameter
from shared.config.parameters import Parameters
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

MOST_UNITS = Parameter("taskrefiner", "MOST_UNITS", 5_000_000, "units", "of input that a task may have", 1, per_vo=True)
MOST_UNITS_OF_ANALYSIS = Parameter(
    "taskrefiner", "MOST_UNITS_OF_ANALYSIS", 1_000_000, "units", "of input that a task of analysis may have", 1,
    per_vo=True,
)  # fmt: skip
MOST_UNITS_OF_FILE = Parameter(
    "taskrefiner", "MOST_UNITS_OF_FILE", 100_000, "units", "that one file may be cut into by events", 1, per_vo=True
)


@dataclass(frozen=True)
class UnitLimits:
    """Of one task: in all, and of one file that is cut by events. `parameter`: what sets the first."""

    of_task: int = MOST_UNITS.default
    of_file: int = MOST_UNITS_OF_FILE.default
    parameter: str = MOST_UNITS.key


#: where nothing is set
DEFAULT_LIMITS = UnitLimits()


def limits_for(parameters: Parameters, vo: str, *, is_analysis: bool) -> UnitLimits:
    """The limits of a task of this VO."""
    most = MOST_UNITS_OF_ANALYSIS if is_analysis else MOST_UNITS
    return UnitLimits(parameters.read(most, vo=vo), parameters.read(MOST_UNITS_OF_FILE, vo=vo), most.key)


def too_many_units(plan: Refined, datasets: Mapping[str, DatasetFacts], limits: UnitLimits) -> str | None:
    """Why a task must not be defined as planned; None: it may, before its input is read.

    Example: 1,000,000,000 events at one per job are refused with "1000000000 units of input; allowed: at most 1000000
    (MOST_UNITS_OF_ANALYSIS)".
    """
    count = least_units(plan, datasets)
    return told_too_many(count, limits.of_task, limits.parameter) if count > limits.of_task else None


def unit_problems(
    spec: TaskSpec, outcome: Outcome, datasets: Mapping[str, DatasetFacts], limits: UnitLimits
) -> list[FieldProblem]:
    """The same of a submission, with the field that asks for them."""
    too_many = too_many_units(outcome, datasets, limits) if isinstance(outcome, Refined) else None
    if too_many is None:
        return []
    given = spec.parameters
    if not spec.no_input:
        return [problem("jobParameters", None, too_many)]
    by_events = bool(given.n_events) and bool(given.n_events_per_job)
    return [problem("nEvents" if by_events else "nFiles", given.n_events if by_events else given.n_files, too_many)]


def within(outcome: Outcome, datasets: Mapping[str, DatasetFacts], limits: UnitLimits) -> Outcome:
    """The outcome of refining, or its refusal where it is a plan of too many units."""
    too_many = too_many_units(outcome, datasets, limits) if isinstance(outcome, Refined) else None
    return outcome if too_many is None else DefinitionRefused(too_many)


def told_too_many(count: int | str, most: int, parameter: str) -> str:
    """The sentence that names both numbers."""
    return f"{count} units of input; allowed: at most {most} ({parameter})"


def least_units(plan: Refined, datasets: Mapping[str, DatasetFacts]) -> int:
    """At least so many units a plan makes, as far as the numbers of files and events alone say it."""
    if plan.pseudo is not None:
        return plan.pseudo.n_rows
    return sum(_of_dataset(plan, one, datasets[one.name]) for one in plan.inputs if one.is_master)


def _of_dataset(plan: Refined, one: InputDatasetPlan, facts: DatasetFacts) -> int:
    """Of one master; what is filtered by name is known when it is read."""
    if one.names is not None or one.include or one.exclude or plan.rules.skip_files_used_by:
        return 0
    n_files = max(0, facts.n_files - one.skip_files)
    if plan.max_files is not None and plan.max_files < n_files:
        return plan.max_files
    if one.events_per_unit is None:
        return n_files if plan.max_events is None else 0
    n_events = n_files * one.events_per_file if one.events_per_file else facts.n_events
    if plan.max_events is not None:
        n_events = min(n_events, plan.max_events)
    return -(-n_events // one.events_per_unit)
