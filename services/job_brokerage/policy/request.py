"""A chunk's row as the value that the policies read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from services.job_brokerage.parameters import analysis_limits_from
from services.job_brokerage.policy.kinds import kind_of
from shared.brokerage.analysis_facts import AnalysisInput, TaskFacts
from shared.brokerage.classes import TaskProgress
from shared.brokerage.limits import JobLimits
from shared.brokerage.matchmaking import Advert
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.request_of_task import request_of_task
from shared.brokerage.smallest_job import (
    SecondaryInput,
    SmallestJob,
)
from shared.brokerage.usage import OwnUsage, Usage
from shared.config.parameters import Parameters
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds


@dataclass(frozen=True)
class TaskHistory:
    """How far an analysis task is, and where it has had jobs."""

    n_files: int = 0
    n_finished: int = 0
    queues_used: tuple[str, ...] = ()


def analysis_input(
    row: Mapping[str, Any], history: TaskHistory, usage: Usage, own: OwnUsage, parameters: Parameters
) -> AnalysisInput:
    """What analysis brokerage also needs of an offered chunk's task."""
    rules = rules_of(row["split_rule"])
    group = row["working_group"] or ""
    facts = TaskFacts(
        task_id=row["task_id"],
        user_name=row["user_name"] or "",
        working_group=group,
        gshare=row["gshare"] or "",
        vo=row["vo"] or "",
        progress=TaskProgress(history.n_files, history.n_finished, rules.n_files_per_job or 1),
        queues_used=frozenset(history.queues_used),
        avoid_vp=rules.avoid_vp,
    )
    return AnalysisInput(facts, analysis_limits_from(parameters, vo=row["vo"], is_group=bool(group)), usage, own)


def job_request(
    row: Mapping[str, Any],
    inputs: tuple[InputDataset, ...],
    limits: JobLimits,
    now: datetime,
    analysis: AnalysisInput | None = None,
    site_adverts: tuple[Advert, ...] = (),
    secondary: tuple[SecondaryInput, ...] = (),
) -> JobRequest:
    """The request for one offered chunk. `secondary`: the task's input that follows the chunk's files.

    Raises UnknownUnit, InvalidArchitecture or ValueError if the task's needs make no sense.
    """
    kind = kind_of(row)
    own_queue = kind.own_queue(row, limits, now)
    task = request_of_task(row, _needs_of_chunk(row), now)
    job = kind.job(row, inputs, secondary)
    return replace(
        task,
        chunk_id=row["chunk_id"],
        priority=kind.priority(row, task),
        is_scout=kind.is_scout,
        is_merge=kind.is_merge,
        is_pre_merged=kind.is_pre_merged(task),
        copies_to_scratch=kind.copies_to_scratch(row, task),
        # A chunk with a queue of its own (merging) may go nowhere else.
        preassigned=own_queue or task.preassigned,
        # The files of a chunk are known: its smallest job, how many jobs it may become.
        job=job,
        n_jobs=jobs_of_chunk(row, job),
        inputs=kind.inputs(inputs, own_queue),
        # Only the job brokerage also asks what passes by itself: load, use by users, what sites advertise.
        limits=limits,
        analysis=analysis,
        site_adverts=site_adverts,
    )


def _needs_of_chunk(row: Mapping[str, Any]) -> WorkNeeds:
    """Those of its kind; units whose memory was raised after a failure form chunks that need it."""
    needs = kind_of(row).needs(row)
    return replace(needs, ram_mb=max(needs.ram_mb, row.get("chunk_ram_mb") or 0))


def jobs_of_chunk(row: Mapping[str, Any], job: SmallestJob) -> int:
    """How many jobs the chunk may become.

    One for each boundary that is one job; else by events if the smallest job has a number of them, else by files.
    """
    if row.get("largest_boundary"):
        return max(1, int(row["largest_boundary"]["n_boundaries"]))
    if job.n_events and row["chunk_events"]:
        return max(1, -(-int(row["chunk_events"]) // job.n_events))
    return max(1, -(-int(row["chunk_files"]) // max(1, job.n_files)))
