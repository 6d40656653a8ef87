"""Turns a task file into the rows that brokerage reads, by the code that refines live tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.task_definition.tasks.policy.definition_plan import DefinitionFacts as Known
from services.task_definition.tasks.policy.definition_plan import DefinitionRefused, Refined
from services.task_definition.tasks.policy.refine import refiner_for
from services.task_definition.tasks.policy.shares import UNDEFINED, ShareNode, resource_type_for, share_for
from services.task_definition.tasks.policy.task_file import ChunkPart, InputPart, StatePart, TaskFile
from services.task_definition.tasks.policy.task_spec import TaskSpec, parse_task
from shared.brokerage.request import InputDataset, InputReplica
from shared.brokerage.smallest_job import SecondaryInput
from shared.catalogue.port import DatasetFacts
from shared.model.grid import Grid
from shared.model.share import Share
from shared.task.in_effect import rules_of

# The kinds of chunk that a task without a chunk in its file is asked about.
SCOUT, NORMAL = "scout", "normal"


@dataclass(frozen=True)
class TaskRows:
    """The rows of one task and of its chunk.

    The task's row, its datasets' rows, its input with copies; the chunk's row joined with the task's, its input.

    `secondary`: the input of the task that follows the chunk's files. `seed`: of the choice of a nucleus; `chunk_seed`:
    of the ranking of queues.
    """

    spec: TaskSpec
    task: Mapping[str, Any]
    datasets: tuple[Mapping[str, Any], ...]
    inputs: tuple[InputDataset, ...]
    chunk: Mapping[str, Any]
    chunk_inputs: tuple[InputDataset, ...]
    secondary: tuple[SecondaryInput, ...]
    seed: int
    chunk_seed: int


def rows_of(file: TaskFile, grid: Grid) -> TaskRows:
    """The rows of a task.

    Raises InvalidTask with every problem of its parameters, ValueError if it cannot work.
    """
    spec, state = parse_task(file.parameters), file.state
    _check_nucleus(state, grid)
    resource_type = state.resource_type or resource_type_for(spec, grid.resource_types)
    gshare = state.share or share_for(spec, resource_type, [_node(one) for one in grid.shares]) or UNDEFINED
    task = spec.columns() | {
        "task_id": state.task_id,
        "status": state.status,
        "assigning_since": state.assigning_since,
        "split_rule": _split_rule(spec, file) if state.split_rule is None else state.split_rule,
        "gshare": gshare,
        "resource_type": resource_type,
        "user_name": state.user_name or spec.parameters.user_name or "",
        "nucleus": state.nucleus or spec.parameters.nucleus,
        "parent_tid": state.parent.task_id if state.parent else spec.parameters.parent_task_id,
        "parent_nucleus": state.parent.nucleus if state.parent else None,
        "event_service": spec.columns().get("event_service"),
    }
    if state.priority is not None:
        task["current_priority"] = state.priority
    if state.cpu_time is not None:
        task["cpu_time"] = state.cpu_time
    if state.ram_count is not None:
        task["ram_count"] = state.ram_count
    task |= state.changed
    datasets = _datasets(spec, file)
    inputs = _with_copies(file.inputs)
    of_chunk = _with_copies(file.chunk.inputs) if file.chunk and file.chunk.inputs is not None else inputs
    secondary = _secondary(spec, file)
    chunk = _chunk(task, file, datasets)
    chunk_seed = (file.chunk.seed if file.chunk else None) or 0
    return TaskRows(spec, task, datasets, inputs, chunk, of_chunk, secondary, state.seed or 0, chunk_seed)


def _check_nucleus(state: StatePart, grid: Grid) -> None:
    """Raises ValueError for a nucleus that the world does not have: nothing could be decided on it."""
    nuclei = sorted(name for name, site in grid.sites.items() if site.is_nucleus)
    for field, value in (("state.nucleus", state.nucleus), ("state.changed.nucleus", state.changed.get("nucleus"))):
        if value is not None and value not in nuclei:
            allowed = ", ".join(nuclei) or "none: the world has no nucleus"
            raise ValueError(f"{field} = {value!r}: allowed are the nuclei of the world: {allowed}")


def _with_copies(parts: Sequence[InputPart]) -> tuple[InputDataset, ...]:
    """Input that has data."""
    return tuple(
        InputDataset(
            one.dataset,
            one.files,
            one.bytes,
            tuple(InputReplica(copy.storage, copy.files, copy.bytes, copy.tape) for copy in one.replicas),
            one.master,
        )
        for one in parts
        if not one.pseudo
    )


def _node(share: Share) -> ShareNode:
    expressions = {
        "prod_source_label": share.prodsourcelabel, "working_group": share.workinggroup, "campaign": share.campaign,
        "processing_type": share.processingtype, "trans_path": share.transpath, "resource_type": share.rtype,
        "vo": share.vo,
    }  # fmt: skip
    return ShareNode(share.name, share.parent, {key: value for key, value in expressions.items() if value is not None})


def _split_rule(spec: TaskSpec, file: TaskFile) -> dict[str, Any]:
    """The rules after refining; input that the file does not list is taken as unknown to the catalogue, not refused."""
    known = {
        one.dataset: DatasetFacts(one.dataset, "", "dataset", "frozen", one.files, one.bytes, one.events)
        for one in file.inputs
    }
    wanted = {name for item in spec.inputs for name in item.datasets()}
    known |= {name: DatasetFacts(name, "", "dataset", "frozen") for name in wanted - known.keys()}
    refiner = refiner_for(spec.parameters.vo, spec.parameters.prod_source_label)
    outcome = refiner(spec, file.state.task_id, Known(known))
    if isinstance(outcome, DefinitionRefused):
        raise ValueError(f"the task cannot be refined: {outcome.reason}")
    return outcome.split_rule if isinstance(outcome, Refined) else spec.split_rule()


def _attributes(spec: TaskSpec, part: InputPart) -> dict[str, Any]:
    """Those that the file states, else those of the item that names the dataset."""
    if part.attributes:
        return part.attributes
    items = (item for item in spec.inputs if part.dataset in item.datasets())
    return next((item.dataset_attributes() for item in items), {})


def _secondary(spec: TaskSpec, file: TaskFile) -> tuple[SecondaryInput, ...]:
    return tuple(
        SecondaryInput(one.files, one.bytes, one.events, _attributes(spec, one))
        for one in file.inputs
        if not one.master and not one.pseudo
    )


def _datasets(spec: TaskSpec, file: TaskFile) -> tuple[Mapping[str, Any], ...]:
    if file.inputs:
        return tuple(
            {
                "dataset_name": one.dataset,
                "is_master": one.master,
                "type": "pseudo_input" if one.pseudo else "input",
                "n_files": one.files,
                "n_events": one.events,
                "attributes": _attributes(spec, one),
            }
            for one in file.inputs
        )
    given = spec.parameters
    per_job = given.n_events_per_job or given.events_per_file() or 0
    n_events = given.n_events or (given.n_files or 1) * per_job
    n_files = -(-n_events // per_job) if given.n_events and per_job else given.n_files or 1
    pseudo = {"dataset_name": "pseudo_input", "is_master": True, "type": "pseudo_input"}
    return ({**pseudo, "n_files": n_files, "n_events": n_events},)


def _chunk(task: Mapping[str, Any], file: TaskFile, datasets: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any]:
    scout = file.state.scout if file.state.scout is not None else not rules_of(task["split_rule"]).skip_scout
    chunk = file.chunk or ChunkPart(kind="scout" if scout else "normal")
    masters = [one for one in datasets if one["is_master"]]
    totals = {
        "files": sum(one["n_files"] for one in masters),
        "events": sum(one["n_events"] for one in masters),
        "bytes": sum(one.bytes for one in file.inputs if one.master),
    }
    return dict(task) | {
        "task_status": task["status"],
        "chunk_id": chunk.chunk_id,
        "kind": chunk.kind,
        "chunk_files": totals["files"] if chunk.files is None else chunk.files,
        "chunk_events": totals["events"] if chunk.events is None else chunk.events,
        "chunk_bytes": totals["bytes"] if chunk.bytes is None else chunk.bytes,
        "chunk_queue": chunk.queue,
        "chunk_priority": task["current_priority"] if chunk.priority is None else chunk.priority,
        "chunk_ram_mb": chunk.ram_mb,
        "merge_waiting_since": chunk.waiting_since,
        "largest_boundary": None if chunk.largest_boundary is None else chunk.largest_boundary.model_dump(),
    }
