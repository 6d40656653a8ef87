"""Whether the tokens and destinations of a task's outputs name anything that the grid has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.brokerage.nuclei import destination_storage
from shared.brokerage.output_places import is_of_kind, token_of
from shared.model.dataset_types import FINAL_OUTPUT_TYPES
from shared.model.grid import Grid
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

_PLACE = "allowed: a storage of the grid that is not tape, or a site that has one for output"


@dataclass(frozen=True)
class WantedPlace:
    """A field of the task, and where it wants outputs to be."""

    field: str
    token: str | None = None
    destination: str | None = None


def places_of_outputs(spec: TaskSpec) -> list[WantedPlace]:
    """Every token and destination of the task and of its output items, with its field."""
    given = spec.parameters
    items = [
        (f"jobParameters.{index}", item)
        for index, item in enumerate(given.job_parameters)
        if item.param_type in FINAL_OUTPUT_TYPES
    ]
    items += given.named_logs()
    wanted = [WantedPlace("destination", destination=given.destination)] if given.destination else []
    for name, item in items:
        if item.destination:
            wanted.append(WantedPlace(f"{name}.destination", destination=item.destination))
        if item.token:
            wanted.append(WantedPlace(f"{name}.token", token=item.token))
    return wanted


def unknown_places(grid: Grid, wanted: Sequence[WantedPlace]) -> list[FieldProblem]:
    """Those that name no storage and no site of the grid, or a kind of storage that it does not have."""
    found = []
    for one in wanted:
        token = token_of(one.token)
        destination = one.destination or token.destination
        if destination and destination_storage(grid, destination) is None:
            found.append(problem(one.field, destination, _PLACE))
        if token.stays_at and token.stays_at not in grid.storages:
            found.append(problem(one.field, one.token, "allowed: ddd: alone, or with a storage of the grid behind it"))
        if token.kind and not any(is_of_kind(storage, token.kind) for storage in grid.storages.values()):
            kinds = ", ".join(sorted({storage.type for storage in grid.storages.values()}))
            allowed = f"allowed: a kind of storage that the grid has ({kinds}), dst:NAME, ddd:"
            found.append(problem(one.field, token.kind, allowed))
    return found
