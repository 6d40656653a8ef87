"""Kinds of jobs, one strategy each: what differs in templates, command line, needs, time and place.

Everything else of generation asks the strategy and does not look at the name. The event service has strategies of its
own (`event_service`) for kinds that have the same name. Priorities by kind are in `shared.model.priorities`, for the
dispatch of jobs needs them, too. Pure.
"""

from __future__ import annotations

from services.job_generation.policy.kinds.build import BUILD_JOB_MAX_WALLTIME, Build
from services.job_generation.policy.kinds.event_service import JUMBO
from services.job_generation.policy.kinds.merge import MERGE_JOB_MAX_WALLTIME, MERGEABLE, Merge
from services.job_generation.policy.kinds.preprocess import PREPROCESSING, Preprocess
from services.job_generation.specification.kind_of_job import KindOfJob, Normal, Scout

NORMAL, SCOUT, MERGE, BUILD, PREPROCESS = Normal(), Scout(), Merge(), Build(), Preprocess()
_KINDS: dict[str, KindOfJob] = {one.name: one for one in (NORMAL, SCOUT, MERGE, BUILD, PREPROCESS, JUMBO)}
#: in other states of a task no chunk becomes jobs
CHUNKS_WANTED_WHILE = frozenset(status for one in _KINDS.values() for status in one.chunks_wanted_while)


def kind_of(name: str) -> KindOfJob:
    """The strategy of chunks and jobs of this kind. Raises KeyError for an unknown one."""
    return _KINDS[name]


__all__ = [
    "BUILD",
    "BUILD_JOB_MAX_WALLTIME",
    "CHUNKS_WANTED_WHILE",
    "JUMBO",
    "MERGE",
    "MERGEABLE",
    "MERGE_JOB_MAX_WALLTIME",
    "NORMAL",
    "PREPROCESS",
    "PREPROCESSING",
    "SCOUT",
    "KindOfJob",
    "kind_of",
]
