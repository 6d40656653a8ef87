"""A chunk's row as the value that the policies read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from services.job_brokerage.parameters import analysis_limits_from
from services.job_brokerage.policy.merge_job import Unmerged, merge_job
from shared.brokerage.analysis_facts import AnalysisInput, TaskFacts
from shared.brokerage.classes import TaskProgress
from shared.brokerage.limits import JobLimits
from shared.brokerage.matchmaking import Advert
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.request_of_task import names_in, request_of_task
from shared.brokerage.smallest_job import (
    Boundary,
    SecondaryInput,
    SmallestJob,
    smallest_job,
)
from shared.brokerage.usage import OwnUsage, Usage
from shared.config.parameters import Parameters
from shared.model.needs import WorkNeeds, needs_of_merge_job, needs_of_task
from shared.model.split_precedence import MERGE_LOCAL_IO, rules_in_effect


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
    rules = rules_in_effect(row["split_rule"] or {})
    group = row["working_group"] or ""
    facts = TaskFacts(
        task_id=row["task_id"],
        user_name=row["user_name"] or "",
        working_group=group,
        gshare=row["gshare"] or "",
        progress=TaskProgress(history.n_files, history.n_finished, int(rules.get("nFilesPerJob") or 1)),
        queues_used=frozenset(history.queues_used),
        avoid_vp=bool(rules.get("avoidVP")),
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
    is_merge = row["kind"] == "merge"
    own_queue = _queue_of_chunk(row, limits, now)
    task = request_of_task(row, _needs_of_chunk(row), now)
    job = job_of_chunk(row, inputs, secondary)
    return replace(
        task,
        chunk_id=row["chunk_id"],
        # A chunk has its own priority; that of merge jobs only says that they are dispatched first.
        priority=task.priority if is_merge else row["chunk_priority"],
        # A chunk is of one kind; merge jobs are not merged again.
        is_scout=row["kind"] == "scout",
        is_merge=is_merge,
        is_pre_merged=task.is_pre_merged and not is_merge,
        copies_to_scratch=_copies_to_scratch(row, task.copies_to_scratch, is_merge=is_merge),
        # A chunk with a queue of its own (merging) may go nowhere else.
        preassigned=own_queue or task.preassigned,
        # The files of a chunk are known: its smallest job, how many jobs it may become.
        job=job,
        n_jobs=jobs_of_chunk(row, job),
        # Unmerged files are where their queue is, whatever other queues have of the dataset.
        inputs=() if is_merge and own_queue else inputs,
        # Only the job brokerage also asks what passes by itself: load, use by users, what sites advertise.
        limits=limits,
        analysis=analysis,
        site_adverts=site_adverts,
    )


def _copies_to_scratch(row: Mapping[str, Any], of_task: bool, *, is_merge: bool) -> bool:
    """Merge jobs copy their input as mergeSpec says, where it says anything."""
    of_merges = (row["split_rule"] or {}).get(MERGE_LOCAL_IO) if is_merge else None
    return of_task if of_merges is None else bool(of_merges)


def _needs_of_chunk(row: Mapping[str, Any]) -> WorkNeeds:
    """Merging has needs of its own; units whose memory was raised after a failure form chunks that need it."""
    needs = needs_of_merge_job(row) if row["kind"] == "merge" else needs_of_task(row)
    return replace(needs, ram_mb=max(needs.ram_mb, row.get("chunk_ram_mb") or 0))


def _queue_of_chunk(row: Mapping[str, Any], limits: JobLimits, now: datetime) -> tuple[str, ...]:
    """The chunk's own queue; none once that was left out for 24 hours: the chunk then goes where the task may go."""
    since = row.get("merge_waiting_since") if row["kind"] == "merge" else None
    if since and (now - since).total_seconds() >= limits.preassignment_of_merging_s:
        return ()
    return names_in(row["chunk_queue"])


def job_of_chunk(
    row: Mapping[str, Any], inputs: Sequence[InputDataset], secondary: Sequence[SecondaryInput]
) -> SmallestJob:
    """The smallest job of the chunk's files: by the split rules, or by the rules of merging."""
    rules, counted = row["split_rule"] or {}, (row["chunk_files"], row["chunk_events"], row["chunk_bytes"])
    if row["kind"] == "merge":
        return merge_job(rules, [Unmerged(one.n_files, one.n_bytes) for one in inputs], *counted)
    whole_files = sum(one.n_files for one in inputs if one.is_master) or row["chunk_files"]
    largest = row.get("largest_boundary")
    boundary = Boundary(**largest) if largest else None
    return smallest_job(rules, *counted, whole_files=whole_files, secondary=secondary, boundary=boundary)


def jobs_of_chunk(row: Mapping[str, Any], job: SmallestJob) -> int:
    """How many jobs the chunk may become.

    One for each boundary that is one job; else by events if the smallest job has a number of them, else by files.
    """
    if row.get("largest_boundary"):
        return max(1, int(row["largest_boundary"]["n_boundaries"]))
    if job.n_events and row["chunk_events"]:
        return max(1, -(-int(row["chunk_events"]) // job.n_events))
    return max(1, -(-int(row["chunk_files"]) // max(1, job.n_files)))
