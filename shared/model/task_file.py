"""The task file: one task as a dry run of brokerage takes it; a file may have many, one on each line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.model.problems import InvalidGrid, Problem, problems_of

Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplicaPart(_Part):
    """What of the wanted files is at one storage."""

    storage: str
    files: Count
    bytes: Count
    tape: bool = False


class InputPart(_Part):
    """One input dataset: what the task wants of it, and where copies are."""

    dataset: str
    master: bool = True
    files: Count
    bytes: Count
    events: Count = 0
    replicas: list[ReplicaPart] = []


class ParentPart(_Part):
    """The task's parent."""

    task_id: int | None = None
    status: str | None = None
    nucleus: str | None = None


class StatePart(_Part):
    """What the task has become since it was submitted; what is left out follows from its parameters."""

    task_id: int = 0
    status: str = "assigning"
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
    seed: int | None = Field(None, ge=0, description="of the decision; null: 0")


class ChunkPart(_Part):
    """The chunk that job brokerage is to place; files, events and bytes left out: all of the input."""

    chunk_id: int = 0
    kind: Literal["scout", "normal", "merge"] = "normal"
    files: Count | None = None
    events: Count | None = None
    bytes: Count | None = None
    queue: str | None = None
    priority: int | None = None


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
