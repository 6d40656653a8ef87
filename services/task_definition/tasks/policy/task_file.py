"""The task file: one task as a dry run of brokerage takes it; a file may have many, one on each line.

`orrery snapshot task` writes it of a live task, with everything that is not as the parameters say; by hand, the
parameters are enough.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.model.problems import InvalidGrid, Problem, problems_of
from shared.states.task import TaskStatus

Count = Annotated[int, Field(ge=0)]
#: columns of a task that brokerage reads and that scouts or commands may have changed since it was submitted
ChangeableColumn = Literal[
    "nucleus",
    "site",
    "cloud",
    "core_count",
    "ram_count",
    "ram_unit",
    "base_ram_count",
    "out_disk_count",
    "out_disk_unit",
    "work_disk_count",
    "work_disk_unit",
    "cpu_time",
    "cpu_time_unit",
    "cpu_efficiency",
    "base_walltime",
    "io_intensity",
    "io_intensity_unit",
    "disk_io",
    "disk_io_unit",
    "merge_core_count",
    "merge_ram_count",
    "merge_ram_unit",
    "event_service",
    "use_jumbo",
]


class _TaskFilePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplicaPart(_TaskFilePart):
    """What of the wanted files is at one storage."""

    storage: str
    files: Count
    bytes: Count
    tape: bool = False


class FilePart(_TaskFilePart):
    """One file of a dataset, for a dry run of splitting."""

    lfn: str
    bytes: Count = 0
    events: Count | None = None
    lumi_block: int | None = None
    boundary: int | None = None


class InputPart(_TaskFilePart):
    """One input dataset: what is wanted of it, and where copies are.

    A pseudo input only counts: it has no data.
    """

    dataset: str
    master: bool = True
    pseudo: bool = False
    files: Count
    bytes: Count
    events: Count = 0
    attributes: dict[str, Any] = Field(
        {}, description="how a dataset that is not split follows the master; empty: as its item in the parameters says"
    )
    replicas: list[ReplicaPart] = []
    content: list[FilePart] = Field([], description="its files one by one; empty: so many of the same size and events")


class ParentPart(_TaskFilePart):
    """The task's parent."""

    task_id: int | None = None
    status: TaskStatus | None = None
    nucleus: str | None = None


class StatePart(_TaskFilePart):
    """What the task has become since it was submitted; what is left out follows from its parameters."""

    task_id: int = 0
    status: TaskStatus = "assigning"
    assigning_since: datetime | None = Field(None, description="since when it waits for a nucleus; null: not known")
    nucleus: str | None = None
    priority: int | None = None
    share: str | None = None
    resource_type: str | None = None
    scout: bool | None = Field(None, description="whether its next jobs are scouts; null: as the parameters say")
    parent: ParentPart | None = None
    user_name: str | None = None
    files_finished: Count = 0
    queues_used: list[str] = []
    cpu_time: float | None = Field(None, description="as measured by scouts, in the parameters' unit")
    ram_count: int | None = None
    split_rule: dict[str, Any] | None = Field(
        None, description="the rules as they are now; null: as the task is refined"
    )
    changed: dict[ChangeableColumn, str | int | float | None] = Field(
        {}, description="columns that are not as the parameters say: measured by scouts or changed by a command"
    )
    seed: int | None = Field(None, ge=0, description="of the choice of a nucleus; null: 0")


class BoundaryPart(_TaskFilePart):
    """The most files, events and bytes of one boundary of the chunk, and how many boundaries it has."""

    n_files: Count
    n_events: Count
    n_bytes: Count
    n_boundaries: Count = 1


class ChunkPart(_TaskFilePart):
    """The chunk that job brokerage is to place; files, events and bytes left out: all of the input."""

    chunk_id: int = 0
    kind: Literal["scout", "normal", "merge", "build", "preprocess"] = "normal"
    files: Count | None = None
    events: Count | None = None
    bytes: Count | None = None
    queue: str | None = None
    priority: int | None = None
    ram_mb: Count | None = Field(None, description="memory of its units, raised after a failure; in the task's unit")
    waiting_since: datetime | None = Field(None, description="merging: since when chunks of this queue found no place")
    largest_boundary: BoundaryPart | None = Field(None, description="groupBoundaryID 3 and 4: a boundary is one job")
    inputs: list[InputPart] | None = Field(None, description="what the chunk holds; null: all of the task's input")
    seed: int | None = Field(None, ge=0, description="of the ranking of queues; null: 0")


class TaskFile(BaseModel):
    """One task: its parameters as submitted, its state, its input with copies, and perhaps a chunk."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="orrery-task/1")
    parameters: dict[str, Any]
    state: StatePart = StatePart()
    inputs: list[InputPart] = []
    chunk: ChunkPart | None = None


def parse_task_file(content: Any, name: str = "task") -> TaskFile:
    """One decoded task. Raises InvalidGrid with every problem of its form."""
    if not isinstance(content, dict):
        raise InvalidGrid([Problem(name, "", "", "must be an object with `parameters`")])
    try:
        return TaskFile.model_validate(content)
    except ValidationError as error:
        raise InvalidGrid(problems_of(name, "", error)) from None
