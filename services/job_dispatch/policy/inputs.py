"""Whether a job can start where it was sent, or which of its input must be moved there first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.model.link import EXPRESS, PRODUCTION_INPUT
from shared.states.task import TaskStatus

#: states of a task in which its new jobs are not given to pilots
PAUSED: frozenset[TaskStatus] = frozenset({"paused"})
KILLED: frozenset[TaskStatus] = frozenset({"aborting", "toabort", "aborted", "tobroken", "broken"})
ANALYSIS_INPUT = "Analysis Input"


@dataclass(frozen=True)
class JobAtQueue:
    """A waiting job, and where its queue would have its input.

    `destination` None: it reads remotely; `task_status` None: the task is not known; `is_urgent`: its task is.
    """

    job_id: int
    task_id: int
    task_status: TaskStatus | None
    is_analysis: bool
    destination: str | None
    is_urgent: bool = False


@dataclass(frozen=True)
class InputNeed:
    """One input dataset of one job: the files and bytes it reads, and whether they are at the queue."""

    job_id: int
    dataset_id: int
    n_files: int
    n_bytes: int
    is_here: bool
    source_storage: str | None


@dataclass(frozen=True)
class InputTransfer:
    """A movement to be asked for."""

    job: JobAtQueue
    need: InputNeed
    activity: str


@dataclass(frozen=True)
class JobInputPlan:
    """Ids per next state, sorted, and what must be moved for those that become assigned."""

    activate: tuple[int, ...]
    throttle: tuple[int, ...]
    cancel: tuple[int, ...]
    assign: tuple[int, ...]
    transfers: tuple[InputTransfer, ...]


def plan_inputs(jobs: Sequence[JobAtQueue], needs: Iterable[InputNeed]) -> JobInputPlan:
    """Decide for each job: cancelled, input asked for, activated, or waiting.

    Jobs of killed tasks are cancelled; input that is missing is asked for; the others may run, or wait if their task is
    paused.
    """
    missing: dict[int, list[InputNeed]] = {}
    for need in needs:
        if not need.is_here:
            missing.setdefault(need.job_id, []).append(need)
    groups: dict[str, list[int]] = {"activate": [], "throttle": [], "cancel": [], "assign": []}
    transfers: list[InputTransfer] = []
    for job in sorted(jobs, key=lambda one: one.job_id):
        if job.task_status in KILLED:
            groups["cancel"].append(job.job_id)
        elif job.job_id in missing and job.destination is not None:
            groups["assign"].append(job.job_id)
            ordered = sorted(missing[job.job_id], key=lambda one: one.dataset_id)
            transfers += [InputTransfer(job, need, input_activity(job)) for need in ordered]
        else:
            groups["throttle" if job.task_status in PAUSED else "activate"].append(job.job_id)
    ids: Mapping[str, tuple[int, ...]] = {name: tuple(found) for name, found in groups.items()}
    return JobInputPlan(ids["activate"], ids["throttle"], ids["cancel"], ids["assign"], tuple(transfers))


def input_activity(job: JobAtQueue) -> str:
    """By which activity a job's input is moved (JEDI: Express input and output transfers)."""
    if job.is_urgent:
        return EXPRESS
    return ANALYSIS_INPUT if job.is_analysis else PRODUCTION_INPUT
