"""The status of a file as people see it, from its row, its job and the other ranges of its events.

Three states of the charts need no row to be written: they follow from others (JEDI: Transition of file status).
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.dataset_types import OUTPUT_TYPES, UNMERGED_TYPES
from shared.states.file import FileStatus
from shared.states.job import QUEUED, JobStatus

#: the payload is over, and its outputs are being registered, moved or merged
AFTER_PAYLOAD: frozenset[JobStatus] = frozenset({"holding", "transferring", "merging", "finished"})

#: the payload has not begun
BEFORE_PAYLOAD: frozenset[JobStatus] = frozenset({*QUEUED, "sent"})


@dataclass(frozen=True)
class FileInTask:
    """One row of a task's files.

    `producer_status`: of the live job that writes an output. `is_taken_for_merge`: a chunk or a merge job has the
    unmerged output. `n_ranges`, `n_ranges_finished`: rows for events of the same input file.
    """

    type: str
    status: FileStatus
    producer_status: JobStatus | None = None
    is_taken_for_merge: bool = False
    n_ranges: int = 1
    n_ranges_finished: int = 0


def shown_status(file: FileInTask) -> FileStatus:
    """What the file is, in the words of the charts.

    An input of which some ranges of events were processed is partial. An output is defined until its job starts,
    running while that runs, prepared from the end of the payload on, merging while a merge job has it. Example: of 3
    ranges of a file 1 is finished: every row of the file is partial.
    """
    if file.type in OUTPUT_TYPES:
        return _of_output(file)
    if 0 < file.n_ranges_finished < file.n_ranges:
        return "partial"
    return file.status


def _of_output(file: FileInTask) -> FileStatus:
    if file.type in UNMERGED_TYPES and file.status in ("ready", "picked", "running") and file.is_taken_for_merge:
        return "merging"
    if file.type in UNMERGED_TYPES and file.status == "ready":
        return "prepared"
    if file.status != "running" or file.producer_status is None:
        return file.status
    if file.producer_status in AFTER_PAYLOAD:
        return "prepared"
    if file.producer_status in BEFORE_PAYLOAD:
        return "defined"
    return "running"
