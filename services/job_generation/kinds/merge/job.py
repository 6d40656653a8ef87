"""Merge jobs: they read what other jobs wrote, where that is (JEDI: Output merging)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from services.job_generation.policy.merging import merge_stream
from services.job_generation.policy.values import Dataset, JobInput, QueueFacts, Task, Template, Unit
from services.job_generation.specification.kind_of_job import AmountOfWork, KindOfJob
from shared.brokerage.estimates import cores_of_job
from shared.config.parameter import Parameter
from shared.model import command_line
from shared.model.dataset_types import LIBRARY_STREAM, MERGE_LOG_STREAM, UNMERGED_TYPES
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds, cores_of_merge_job

_AT_WORK: tuple[TaskStatus, ...] = ("ready", "scouting", "scouted", "running", "finishing")
#: outputs are merged also while no other jobs are made
MERGEABLE: tuple[TaskStatus, ...] = (*_AT_WORK, "pending", "throttled", "exhausted")

MERGE_JOB_MAX_WALLTIME: Parameter[float | None] = Parameter(
    "jobgen", "MERGE_JOB_MAX_WALLTIME", None, "h", "that a merge job may take; else as long as its queue lets it", 1,
    kind="float", suffixes=("<label>",), only_family=True, per_vo=True,
)  # fmt: skip


class Merge(KindOfJob):
    """Makes final outputs of unmerged ones.

    Its cores, memory and time are those that the task states for merging.
    """

    name = "merge"
    lines: ClassVar[tuple[str, ...]] = ("merge",)
    trans_path_line = "merge_trans_path"
    longest_walltime = MERGE_JOB_MAX_WALLTIME
    processing_type = "pmerge"
    has_steps = False
    goes_where_the_task_says = False
    reads_outputs = True
    needs_memory_of_merging = True
    chunks_wanted_while = MERGEABLE
    takes_turns = False
    is_named_as_merged = True

    def templates(
        self,
        templates: Sequence[Template],
        rules: SplitRules,
        datasets: Mapping[int, Dataset],
        command_lines: Mapping[str, Any],
    ) -> list[Template]:
        """Final outputs. With a log of merge jobs' own (log_merge, a log), logs of the task are outputs.

        Those are written as far as the command line reads unmerged logs or names merged ones. A log_merge that is an
        output is what the logs are merged into, and the log of a merge job is the task's.
        """
        given = [one for one in templates if one.stream_name != LIBRARY_STREAM]
        final = [one for one in given if one.dataset_type not in UNMERGED_TYPES]
        if not any(one.stream_name == MERGE_LOG_STREAM and one.is_log for one in final):
            return final
        lines = [str(command_lines.get(line) or "") for line in ("merge", "es_merge")]
        return [one for one in final if not one.is_log or _is_written(one.stream_name, lines)]

    def streams(
        self, datasets: Mapping[int, Dataset], jobs: Sequence[JobInput]
    ) -> Sequence[Mapping[str, Sequence[Unit]]]:
        """Unmerged files under TRN_OUTPUT0, TRN_LOG0, ..., and what all jobs of the site read besides."""
        return [streams_of(datasets, one) for one in jobs]

    def needs(self, task: Task) -> WorkNeeds:
        """Cores and memory of a merge job are what the task says for those, whatever its other jobs need."""
        ram = task.merge_ram
        cores = cores_of_merge_job(task.merge_core_count)
        return replace(task.needs, core_count=cores, base_ram_mb=0, ram_mb=ram.mb, ram_per_core=ram.per_core)

    def cores(self, task: Task, queue: QueueFacts) -> int:
        """What the task states for merge jobs, the slot's where it states 0."""
        return cores_of_job(self.needs(task), queue.core_count, is_merge=True)

    def output_bytes(self, task: Task, work: AmountOfWork) -> float:
        """As much as it reads."""
        return float(work.input_bytes)

    def walltime_s(self, task: Task, queue: QueueFacts, work: AmountOfWork, cores: int) -> float | None:
        """What scouts or the task say of merging."""
        return task.merge_walltime_s

    def copies_to_scratch(self, task: Task) -> bool:
        """What mergeSpec says (useLocalIO), else the task."""
        of_merges = task.rules.merges_from_scratch
        return task.rules.copies_to_scratch if of_merges is None else of_merges


def streams_of(datasets: Mapping[int, Dataset], job: JobInput) -> dict[str, list[Unit]]:
    """What a merge job reads, by the name of its placeholder."""
    found = {str(datasets[key].stream_name): list(units) for key, units in job.secondary.items()}
    for unit in job.master:
        found.setdefault(merge_stream(datasets[unit.dataset_id]), []).append(unit)
    return found


def _is_written(stream: str, lines: Sequence[str]) -> bool:
    """Whether merge jobs write a log: their own, and one that their command line merges."""
    named = (stream, f"TRN_{stream}")
    return stream == MERGE_LOG_STREAM or any(command_line.reads(line, one) for line in lines for one in named)


MERGE = Merge()
