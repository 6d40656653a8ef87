"""Where a job goes when its outputs are registered: merging, transfer to where they are kept, or done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.model.link import EXPRESS, PRODUCTION_OUTPUT


@dataclass(frozen=True)
class HoldingJob:
    """A job whose outputs are in the catalogue; sites are names, storages None where there is none.

    `kept_at`: the storage where its outputs are to be kept (that of the nucleus, or the task's destination).
    `kept_at_site`: the site any storage of which will do as well. `is_urgent`: its task is.
    """

    job_id: int
    task_id: int
    job_type: str
    task_merges: bool
    queue_site: str | None
    queue_storage: str | None
    kept_at_site: str | None
    kept_at: str | None
    n_files: int
    n_bytes: int
    is_urgent: bool = False

    @property
    def activity(self) -> str:
        """By which activity its outputs are moved (JEDI: Express input and output transfers)."""
        return EXPRESS if self.is_urgent else PRODUCTION_OUTPUT


@dataclass(frozen=True)
class JobOutputPlan:
    """Jobs per next state, in the order of their ids; those that transfer need one movement each."""

    merge: tuple[HoldingJob, ...]
    transfer: tuple[HoldingJob, ...]
    finish: tuple[HoldingJob, ...]


def plan_outputs(jobs: Sequence[HoldingJob]) -> JobOutputPlan:
    """Where each job's outputs go.

    Unmerged outputs stay where they are until the merge job has read them; merged ones, and those of tasks that do not
    merge, go where they are to be kept unless they are there.
    """
    merge, transfer, finish = [], [], []
    for job in sorted(jobs, key=lambda one: one.job_id):
        if job.task_merges and job.job_type not in ("merge", "build", "preprocess"):
            merge.append(job)
        elif _must_move(job):
            transfer.append(job)
        else:
            finish.append(job)
    return JobOutputPlan(tuple(merge), tuple(transfer), tuple(finish))


def _must_move(job: HoldingJob) -> bool:
    return (
        job.n_files > 0
        and job.kept_at is not None
        and job.queue_storage != job.kept_at
        and (job.kept_at_site is None or job.queue_site != job.kept_at_site)
    )
