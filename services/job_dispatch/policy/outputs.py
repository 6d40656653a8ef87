"""Where a job goes when its outputs are registered: merging, transfer to where they are kept, or done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.model.job_types import PROCESSING
from shared.model.link import EXPRESS, PRODUCTION_OUTPUT


@dataclass(frozen=True)
class HeldOutput:
    """One file of a job with the storage it was written to.

    `goes_to`: the one that it must move to; None where it is kept.
    """

    dataset_id: int
    n_bytes: int
    written_at: str | None
    goes_to: str | None


@dataclass(frozen=True)
class HoldingJob:
    """A job whose outputs are in the catalogue. `is_urgent`: its task is."""

    job_id: int
    task_id: int
    job_type: str
    task_merges: bool
    outputs: tuple[HeldOutput, ...] = ()
    is_urgent: bool = False

    @property
    def activity(self) -> str:
        """By which activity its outputs are moved (JEDI: Express input and output transfers)."""
        return EXPRESS if self.is_urgent else PRODUCTION_OUTPUT

    @property
    def waits_for_merge(self) -> bool:
        """Whether its outputs are read by a merge job."""
        return self.task_merges and self.job_type in PROCESSING


@dataclass(frozen=True)
class OutputTransfer:
    """A movement to be asked for: files of a job's datasets that go the same way."""

    job: HoldingJob
    source: str | None
    destination: str
    dataset_ids: tuple[int, ...]
    n_files: int
    n_bytes: int


@dataclass(frozen=True)
class JobOutputPlan:
    """Jobs per next state, in the order of their ids, and the movements of those that transfer."""

    merge: tuple[HoldingJob, ...]
    transfer: tuple[HoldingJob, ...]
    finish: tuple[HoldingJob, ...]
    transfers: tuple[OutputTransfer, ...]


def plan_outputs(jobs: Sequence[HoldingJob]) -> JobOutputPlan:
    """Where each job's outputs go.

    Unmerged outputs stay where they are until the merge job has read them; merged ones, and those of tasks that do not
    merge, go where their dataset is kept unless they are there. Files with the same way are one movement.
    """
    merge, transfer, finish = list[HoldingJob](), list[HoldingJob](), list[HoldingJob]()
    transfers: list[OutputTransfer] = []
    for job in sorted(jobs, key=lambda one: one.job_id):
        moves = () if job.waits_for_merge else _transfers(job)
        transfers += moves
        (merge if job.waits_for_merge else transfer if moves else finish).append(job)
    return JobOutputPlan(tuple(merge), tuple(transfer), tuple(finish), tuple(transfers))


def _transfers(job: HoldingJob) -> list[OutputTransfer]:
    """One for each way, in the order of the first file that goes it."""
    by_way: dict[tuple[str | None, str], list[HeldOutput]] = {}
    for one in job.outputs:
        if one.goes_to is not None:
            by_way.setdefault((one.written_at, one.goes_to), []).append(one)
    return [
        OutputTransfer(
            job,
            source,
            destination,
            tuple(sorted({one.dataset_id for one in files})),
            len(files),
            sum(one.n_bytes for one in files),
        )
        for (source, destination), files in by_way.items()
    ]
