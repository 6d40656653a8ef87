"""Types of task parameters with their ranges: what is outside is refused with the range."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from services.task_definition.tasks.policy.task_parameters.refused import NO_TAR_BALL, SAYS_NO
from services.task_definition.tasks.policy.task_spec_items import FileName, Text64, Text128, Text256
from services.task_definition.tasks.policy.wanted import wanted_by
from shared.model.job_xml import MOST_CHARACTERS
from shared.task.types import MOST_POINTS, Flag, Identifier, LongText, Points, as_text, at_most

MOST_ITEMS = 1000
WORLD = "WORLD"
#: why a task belongs to no other cloud, in its definition and by a command
NO_OTHER_CLOUD = "allowed: WORLD: other clouds, with T1 and hospital queues, are not used; name a nucleus or a site"


_TERM_CONDITION = re.compile(r"(\d{1,2}(?:\.\d)?)\s*%(?:\s+of\s+(files|events))?")


def _world(stated: str) -> str:
    """The one cloud that is left (PanDA: WORLD cloud)."""
    if stated != WORLD:
        raise ValueError(NO_OTHER_CLOUD)
    return stated


def _wanted_by(stated: str) -> str:
    """A time that can be read; what it says stays as it is."""
    try:
        wanted_by(stated)
    except ValueError:
        raise ValueError("allowed: a date and time, such as '2026-05-01 12:00:00', in UTC unless it says") from None
    return stated


def _term_condition(stated: str) -> str:
    """ "90 %" as "90% of files"."""
    found = _TERM_CONDITION.fullmatch(stated.strip())
    if found is None or float(found.group(1)) == 0:
        raise ValueError("allowed: a percentage from 0.1 to 99.9 of files or events, such as '90% of files'")
    return f"{found.group(1)}% of {found.group(2) or 'files'}"


def _no_tar_ball(stated: Any) -> None:
    if stated not in SAYS_NO:
        raise ValueError(NO_TAR_BALL)


#: physical names of files that a task lists; they are checked in one go
MOST_FILE_NAMES = 10_000


def _file_and_events(stated: str) -> str:
    """The name of a file, and behind a ^ its number of events where that is known."""
    name, mark, events = stated.rpartition("^")
    if mark and not (name and re.fullmatch(r"\d{1,12}", events)):
        raise ValueError("allowed: the name of a file, or NAME^EVENTS with a number of events")
    return stated


PhysicalNames = Annotated[
    list[Annotated[FileName, AfterValidator(_file_and_events)]], at_most(MOST_FILE_NAMES), Field(min_length=1)
]
#: the jobs of a task as its user describes them
JobXmlText = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, strict=True)]
Text20 = Annotated[str, Field(min_length=1, max_length=20, strict=True)]
Cores = Annotated[int, Field(ge=0, le=1024, strict=True)]
Memory = Annotated[int, Field(ge=0, le=10**7, strict=True)]
Amount = Annotated[int, Field(ge=0, le=10**12, strict=True)]
Percent = Annotated[int, Field(ge=0, le=1000, strict=True)]
Fraction = Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)]
Unevaluated = Annotated[int, Field(ge=0, le=MOST_POINTS, strict=True)]
Priority = Annotated[int, Field(ge=-10_000, le=100_000, strict=True)]
Ticket = Annotated[str, BeforeValidator(as_text), Field(max_length=50)]
Cloud = Annotated[str, Field(max_length=10, strict=True), AfterValidator(_world)]
WantedBy = Annotated[str, Field(max_length=32, strict=True), AfterValidator(_wanted_by)]
TermCondition = Annotated[str, Field(max_length=100, strict=True), AfterValidator(_term_condition)]


class Segment(BaseModel):
    """Files of the first input that jobs read together, and how they are called."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", strict=True)]
    files: Annotated[list[FileName], at_most(MOST_FILE_NAMES), Field(min_length=1)]
    segment_id: Identifier | None = Field(None, alias="id")


class MergeSpec(BaseModel):
    """How merge jobs are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    trans_path: Text128 | None = Field(None, alias="transPath")
    job_parameters: LongText | None = Field(None, alias="jobParameters")
    use_local_io: Flag = Field(False, alias="useLocalIO")


class BuildSpec(BaseModel):
    """How the archive of a user's sources is compiled, once for each site."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    archive_name: Annotated[str, Field(min_length=1, max_length=190, strict=True)] = Field(alias="archiveName")
    job_parameters: LongText = Field(alias="jobParameters")
    trans_path: Text128 | None = Field(None, alias="transPath")
    prod_source_label: Text20 | None = Field(None, alias="prodSourceLabel")
    tar_ball_via_ddm: Annotated[Any, BeforeValidator(_no_tar_ball)] = Field(None, alias="tarBallViaDDM", exclude=True)


class PreproSpec(BaseModel):
    """How the job is run that finds out parameters of its task before anything else of it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    job_parameters: LongText = Field(alias="jobParameters")
    trans_path: Text128 | None = Field(None, alias="transPath")
    prod_source_label: Text20 | None = Field(None, alias="prodSourceLabel")


class Step(BaseModel):
    """A program that runs before, beside or after the payload.

    ${TRF} and ${TRF_ARGS} stand for the payload's own program and arguments.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: LongText
    args: LongText = ""


class MultiStepExec(BaseModel):
    """The steps of a payload, and how its container is started."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preprocess: Step | None = None
    coprocess: Step | None = None
    postprocess: Step | None = None
    container_options: dict[Text64, LongText] | None = Field(None, alias="containerOptions", max_length=20)


class HpoRequestData(BaseModel):
    """What is asked of the optimiser (iDDS, HyperParameterOptimization).

    The numbers decide when points follow; the rest is kept for the optimiser and shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_points: Points
    num_points_per_generation: Points | None = None
    min_unevaluated_points: Unevaluated | None = None
    initial_points: Annotated[list[Any], at_most(MOST_POINTS)] | None = None
    opt_space: dict[str, Any] | Annotated[list[Any], at_most(1000)] | None = None
    method: Text256 | None = None
    sandbox: Text256 | None = None
    executable: Text256 | None = None
    arguments: LongText | None = None
    output_json: Text256 | None = None
    workdir: Text256 | None = None
