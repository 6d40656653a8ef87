"""What the end of a merge job of a job set means (JEDI: Final status of Event Service jobs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.job_generation.policy.merging import MERGE_ATTEMPTS
from shared.states.job import JobStatus

#: pilot codes that say that the files to merge are bad: their events are processed again
BAD_FILES = frozenset({1103, 1145, 1171, 1175})


@dataclass(frozen=True)
class AfterMerge:
    """What follows, and why."""

    next: Literal["finish", "merge_again", "process_again", "fail"]
    reason: str


def after_merge(status: JobStatus, error_code: int | None, n_merges: int) -> AfterMerge:
    """What follows a merge job; `n_merges`: how many were made with it.

    One that was taken back before it ran is made again and does not count. Bad files are processed again; what else
    fails is merged again, three times in all.

    Example: the second merge job fails with pilot code 1103: the events are processed again.
    """
    if status == "finished":
        return AfterMerge("finish", "merge job finished")
    if status == "closed":
        return AfterMerge("merge_again", "the merge job was taken back before it ran")
    if n_merges >= MERGE_ATTEMPTS:
        return AfterMerge("fail", f"its events could not be merged in {MERGE_ATTEMPTS} attempts")
    if error_code in BAD_FILES:
        return AfterMerge("process_again", f"files to merge are bad, code {error_code}")
    return AfterMerge("merge_again", f"merge job {n_merges} of {MERGE_ATTEMPTS} failed")
