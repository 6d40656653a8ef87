"""Runtime parameters of job generation (component `jobgen`), read once for each decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from services.job_generation.policy.outcomes import FORGIVEN_ATTEMPTS
from services.job_generation.policy.values import Task
from services.job_generation.specification.kind_of_job import KindOfJob
from shared.config.parameter import SHARE, Parameter, set_by
from shared.config.parameters import Parameters

COMPONENT = "jobgen"
_S_PER_H = 3600.0


TYPICAL_FILES: Parameter[int | None] = Parameter(
    COMPONENT, "TYPNFILES", None, "files", "that a job of a label and type typically takes if its task does not say", 1,
    50_000, kind="int", suffixes=("<label>__<type>",), only_family=True, per_vo=True,
)  # fmt: skip


@dataclass(frozen=True)
class GenerationParameters:
    """What holds for a share; times in seconds."""

    PER_VO: ClassVar = True

    files_of_chunk: int = set_by(
        Parameter(COMPONENT, "NFILES", 5000, "files", "most input of a chunk", 1, 50_000, suffixes=(SHARE,)), int
    )
    jobs_of_chunk: int = set_by(
        Parameter(COMPONENT, "MAX_JOBS_PER_CHUNK", 1000.0, "jobs", "most jobs of a chunk", 1, 5000), int
    )
    open_chunks_of_task: int = set_by(
        Parameter(COMPONENT, "MAX_OPEN_CHUNKS_PER_TASK", 5.0, "chunks", "that wait for queues at a time", 1), int
    )
    merge_jobs_of_chunk: int = set_by(
        Parameter(COMPONENT, "MAX_MERGE_JOBS_PER_CHUNK", 100.0, "jobs", "most merge jobs of a chunk", 1), int
    )
    throttled_retry_s: float = set_by(
        Parameter(COMPONENT, "THROTTLED_RETRY_S", 30.0, "s", "until a throttled task is tried again", 1), float
    )
    unsplittable_retry_s: float = set_by(
        Parameter(COMPONENT, "UNSPLITTABLE_RETRY_S", 3600.0, "s", "until input that fits no queue is tried again", 1),
        float,
    )
    forgiven_attempts: int = set_by(FORGIVEN_ATTEMPTS, int)
    is_on: bool = set_by(Parameter(COMPONENT, "JOB_SUBMISSION", True, "", "false: no jobs are made"), bool)


@dataclass(frozen=True)
class KeptFor:
    """When jobs that ended leave the live table, for all VOs."""

    archive_after_s: float = set_by(
        Parameter(COMPONENT, "ARCHIVE_AFTER_S", 120.0, "s", "until finished jobs leave the live table"), float
    )
    archive_batch: int = set_by(
        Parameter(COMPONENT, "ARCHIVE_BATCH", 5000.0, "jobs", "archived in one transaction", 1), int
    )


def kept_for(parameters: Parameters) -> KeptFor:
    """When jobs that ended leave the live table."""
    return parameters.filled(KeptFor)


def generation_parameters(parameters: Parameters, gshare: str = "", vo: str | None = None) -> GenerationParameters:
    """What holds for a share."""
    return parameters.filled(GenerationParameters, vo=vo, names={SHARE: gshare})


def most_walltime_s(parameters: Parameters, task: Task, kind: KindOfJob) -> int | None:
    """How long jobs of this kind of a task may take; None: as long as their queue lets them.

    Merge jobs by the label of the task (PanDA: MERGE_JOB_MAX_WALLTIME_<label>).
    """
    parameter = kind.longest_walltime
    if parameter is None:
        return None
    label = (task.prod_source_label,) if parameter.suffixes else ()
    hours = parameters.read(parameter, *label, vo=task.vo)
    return None if hours is None else int(hours * _S_PER_H)


def typical_files(parameters: Parameters, task: Task) -> int | None:
    """Files that a job of the task's label and processing type typically takes; None: nothing is set."""
    return parameters.read(TYPICAL_FILES, f"{task.prod_source_label}__{task.processing_type}", vo=task.vo)
