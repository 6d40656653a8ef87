"""What a queue publishes about its software: platforms, containers, cvmfs, hardware and release tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from shared.model.problems import Problem, problems_of

Strings = Annotated[list[str], BeforeValidator(lambda value: value or [])]

# The pseudo-queue whose tags translate container names into source paths.
ALL_QUEUES = "ALL"


class SoftwareTag(BaseModel):
    """One installed release or container."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    cmtconfig: str | None = ""
    container_name: str | None = ""
    project: str | None = ""
    release: str | None = ""
    sources: Strings = []
    tag: str | None = ""


class QueueSoftware(BaseModel):
    """The entry of one queue in the software map."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    cmtconfigs: Strings = []
    containers: Strings = []
    cvmfs: Strings = []
    architectures: Annotated[list[dict[str, Any]], BeforeValidator(lambda value: value or [])] = []
    tags: Annotated[list[SoftwareTag], BeforeValidator(lambda value: value or [])] = []


def software_from_map(
    key: str, record: Mapping[str, Any], file: str = "software_map.json"
) -> QueueSoftware | list[Problem]:
    """One entry of the software map, or everything that is wrong with it."""
    try:
        return QueueSoftware.model_validate(record)
    except ValidationError as error:
        return problems_of(file, key, error)
