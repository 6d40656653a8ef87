"""What chunks ask of brokerage by the kind of their jobs: one strategy each. Pure.

The plain case processes the task's input, or needs as much as a job that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from services.job_brokerage.policy.merge_job import Unmerged, merge_job
from shared.brokerage.limits import JobLimits
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.smallest_job import Boundary, SecondaryInput, SmallestJob, smallest_job
from shared.model.names import names_in
from shared.task.in_effect import rules_of
from shared.task.needs import WorkNeeds, needs_of_merge_job, needs_of_task

Row = Mapping[str, Any]


class KindOfChunk:
    """Chunks of the task's input."""

    is_scout = False
    is_merge = False
    #: columns of the task that its jobs have instead of those of others
    own_columns: Mapping[str, str] = {}
    #: columns of the task that say nothing about them
    unread_columns: frozenset[str] = frozenset()

    def needs(self, row: Row) -> WorkNeeds:
        """What a job asks of a queue."""
        return needs_of_task(row)

    def priority(self, row: Row, task: JobRequest) -> int:
        """A chunk has its own."""
        return int(row["chunk_priority"])

    def copies_to_scratch(self, row: Row, task: JobRequest) -> bool:
        """As the task says."""
        return task.copies_to_scratch

    def is_pre_merged(self, task: JobRequest) -> bool:
        """Whether merge jobs follow."""
        return task.is_pre_merged

    def own_queue(self, row: Row, limits: JobLimits, now: datetime) -> tuple[str, ...]:
        """The queue that it may not leave; mostly none."""
        return names_in(row["chunk_queue"])

    def inputs(self, inputs: tuple[InputDataset, ...], own_queue: tuple[str, ...]) -> tuple[InputDataset, ...]:
        """The datasets whose places count."""
        return inputs

    def job(self, row: Row, inputs: Sequence[InputDataset], secondary: Sequence[SecondaryInput]) -> SmallestJob:
        """The smallest job of the chunk's files, by the split rules."""
        whole_files = sum(one.n_files for one in inputs if one.is_master) or row["chunk_files"]
        largest = row.get("largest_boundary")
        boundary = Boundary(**largest) if largest else None
        return smallest_job(
            rules_of(row["split_rule"]), *counts(row), whole_files=whole_files, secondary=secondary, boundary=boundary
        )


class ScoutChunk(KindOfChunk):
    """The first of the input."""

    is_scout = True


class MergeChunk(KindOfChunk):
    """Outputs that are merged where they are."""

    is_merge = True
    own_columns: Mapping[str, str] = {
        "core_count": "merge_core_count",
        "ram_count": "merge_ram_count",
        "ram_unit": "merge_ram_unit",
    }
    unread_columns = frozenset({"cpu_time", "out_disk_count"})

    def needs(self, row: Row) -> WorkNeeds:
        """Merging has needs of its own."""
        return needs_of_merge_job(row)

    def priority(self, row: Row, task: JobRequest) -> int:
        """The task's: that of merge jobs only says that they are dispatched first."""
        return task.priority

    def copies_to_scratch(self, row: Row, task: JobRequest) -> bool:
        """As mergeSpec says, where it says anything."""
        stated = rules_of(row["split_rule"]).merges_from_scratch
        return task.copies_to_scratch if stated is None else stated

    def is_pre_merged(self, task: JobRequest) -> bool:
        """Merge jobs are not merged again."""
        return False

    def own_queue(self, row: Row, limits: JobLimits, now: datetime) -> tuple[str, ...]:
        """Where the files are; once that was left out for 24 hours the chunk goes where the task may go."""
        since = row.get("merge_waiting_since")
        if since and (now - since).total_seconds() >= limits.preassignment_of_merging_s:
            return ()
        return names_in(row["chunk_queue"])

    def inputs(self, inputs: tuple[InputDataset, ...], own_queue: tuple[str, ...]) -> tuple[InputDataset, ...]:
        """Unmerged files are where their queue is, whatever other queues have of the dataset."""
        return () if own_queue else inputs

    def job(self, row: Row, inputs: Sequence[InputDataset], secondary: Sequence[SecondaryInput]) -> SmallestJob:
        """By the rules of merging."""
        unmerged = [Unmerged(one.n_files, one.n_bytes) for one in inputs]
        return merge_job(rules_of(row["split_rule"]), unmerged, *counts(row))


def counts(row: Row) -> tuple[int, int, int]:
    """Files, events and bytes of a chunk."""
    return row["chunk_files"], row["chunk_events"], row["chunk_bytes"]


_INPUT, _MERGE = KindOfChunk(), MergeChunk()
_KINDS: Mapping[str, KindOfChunk] = {
    "scout": ScoutChunk(), "normal": _INPUT, "merge": _MERGE, "build": _INPUT, "preprocess": _INPUT,
}  # fmt: skip


def kind_of(row: Row) -> KindOfChunk:
    """The strategy of a chunk's row."""
    return _KINDS[row["kind"]]
