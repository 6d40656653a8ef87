"""The kinds of jobs of this service: a line each, in the order in which the steps ask them."""

from __future__ import annotations

from services.job_generation.kinds.build.doors import BuildJobs
from services.job_generation.kinds.copies.doors import CopiesOfJobs
from services.job_generation.kinds.event_service.doors import JobsOfSets
from services.job_generation.kinds.jumbo.doors import JumboJobs
from services.job_generation.kinds.merge.doors import MergeJobs
from services.job_generation.kinds.normal.doors import NormalJobs
from services.job_generation.kinds.preprocess.doors import PreprocessingJobs
from services.job_generation.kinds.room import BuiltKind, Steps
from services.job_generation.kinds.scout.doors import ScoutJobs
from services.job_generation.kinds.search.doors import SearchJobs
from services.job_generation.specification.kind_of_job import KindOfJob
from services.job_generation.steps.doors import Kinds

KINDS: tuple[type[BuiltKind], ...] = (
    ScoutJobs,
    NormalJobs,
    PreprocessingJobs,
    BuildJobs,
    SearchJobs,
    JobsOfSets,
    JumboJobs,
    CopiesOfJobs,
    MergeJobs,
)


def register(kinds: Kinds, steps: Steps) -> None:
    """Build all kinds, and let the steps ask them."""
    for kind in KINDS:
        kinds.add(kind(steps))


def kind_of(name: str) -> KindOfJob:
    """What chunks and jobs of this name differ in. Raises KeyError for an unknown one."""
    return {one.job.name: one.job for one in KINDS if one.job is not None}[name]
