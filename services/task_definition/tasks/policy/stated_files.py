"""Input of which the definition itself says which files are read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.task_definition.tasks.policy.definition_plan import DefinitionRefused, InputDatasetPlan
from shared.model.job_xml import JobXml


def of_xml(described: JobXml, plans: tuple[InputDatasetPlan, ...]) -> tuple[InputDatasetPlan, ...] | DefinitionRefused:
    """The files that the jobs of loadXML name, in their order.

    A dataset that none names is read as without it. All files of a job lie in one dataset of each item: a container
    stands for the one dataset in it.
    """
    found = []
    for plan in plans:
        names, boundaries = described.files_of(plan.name)
        if not names and plan.container is not None:
            names, boundaries = described.files_of(plan.container)
            n_datasets = sum(other.container == plan.container for other in plans)
            if names and n_datasets > 1:
                why = f"its files are in {n_datasets} datasets; allowed: names of datasets, or of a container of one"
                return DefinitionRefused(f"loadXML names container {plan.container}: {why}")
        if plan.is_master and not names:
            told = ", ".join(sorted(described.datasets))
            return DefinitionRefused(f"loadXML names files of {told}; allowed: each job names files of {plan.name}")
        if not names:
            found.append(plan)
            continue
        found.append(
            replace(plan, names=names, boundaries=boundaries, include=(), exclude=(), files_per_master_file=None)
        )
    return _with_one_master("loadXML", found)


def of_segments(
    segments: Sequence[Sequence[str]], plans: tuple[InputDatasetPlan, ...]
) -> tuple[InputDatasetPlan, ...] | DefinitionRefused:
    """The files of the first input in the order of the segments; each segment is a boundary."""
    pairs = [(name, number) for number, files in enumerate(segments, start=1) for name in files]
    names, boundaries = tuple(name for name, _ in pairs), tuple(number for _, number in pairs)
    found = [
        replace(plan, names=names, boundaries=boundaries, include=(), exclude=()) if plan.is_master else plan
        for plan in plans
    ]
    return _with_one_master("segmentSpecs", found)


def _with_one_master(field: str, plans: Sequence[InputDatasetPlan]) -> tuple[InputDatasetPlan, ...] | DefinitionRefused:
    """A chunk of input is of one dataset: what is read together lies in one."""
    masters = [plan.name for plan in plans if plan.is_master]
    if len(masters) > 1:
        return DefinitionRefused(f"{field}: the first input has datasets {', '.join(masters)}; allowed: one dataset")
    return tuple(plans)
