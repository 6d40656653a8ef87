"""Groups of unmerged outputs (JEDI: Internal Merging; Output merging).

Jobs of a task that wait in state merging at one queue are merged there. A group is one merge job; it ends before the
job that would break a limit: nFilesPerMergeJob, nMaxFilesPerMergeJob (50), nGBPerMergeJob (5 GB of the largest
output), nEventsPerMergeJob; onSiteMerging puts everything into one, up to 1000 files in all and nGBPerMergeJob.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.job_generation.policy.outcomes import Ended
from services.job_generation.policy.values import Dataset, Unit
from shared.brokerage.smallest_job import MAX_FILES_MERGED_ON_SITE, MERGED_GB
from shared.model.units import GB_BYTES
from shared.states.job import JobStatus
from shared.task.in_effect import SplitRules

MERGE_ATTEMPTS = 3


@dataclass(frozen=True)
class Producer:
    """A job that waits to be merged, and its unmerged outputs."""

    job_id: int
    files: tuple[Unit, ...]

    @property
    def n_events(self) -> int:
        """Events of its output; every stream has the same."""
        return max((unit.events or 0 for unit in self.files), default=0)


def merge_stream(dataset: Dataset) -> str:
    """The stream of an unmerged dataset in the command line of merge jobs: TRN_OUTPUT0, TRN_LOG0, ..."""
    name = dataset.stream_name or f"TRN_{dataset.dataset_id}"
    return name if name.startswith("TRN_") else f"TRN_{name}"


def producers_of(units: Iterable[Unit]) -> list[Producer]:
    """Unmerged outputs by the job that made them (`boundary_id`), oldest job first, streams by dataset."""
    by_job: dict[int, list[Unit]] = {}
    for unit in units:
        by_job.setdefault(unit.boundary_id or 0, []).append(unit)
    return [
        Producer(job_id, tuple(sorted(by_job[job_id], key=lambda unit: (unit.dataset_id, unit.file_id))))
        for job_id in sorted(by_job)
    ]


def most_producers(rules: SplitRules, n_groups: int) -> int:
    """How many jobs are looked at for so many groups, and one more that tells whether others follow.

    For onSiteMerging one group at a time. Example: 100 groups of 50 files are 5001 jobs, however many of a task wait.
    """
    if rules.merges_on_site:
        return MAX_FILES_MERGED_ON_SITE + 1
    return n_groups * (rules.n_files_per_merge_job or rules.n_max_files_per_merge_job) + 1


def groups(producers: Sequence[Producer], rules: SplitRules, *, complete: bool) -> list[tuple[Producer, ...]]:
    """One tuple for each merge job, in order.

    `complete`: no more outputs will come to this queue, so that the last group may be small; otherwise a group that
    could still grow is left out. Numbers of files and events of a merge job do not bound onSiteMerging; what one job
    may read (1000 files) and write (5 GB of an output) does.
    """
    on_site = rules.merges_on_site
    max_files = rules.n_files_per_merge_job or rules.n_max_files_per_merge_job
    max_files = MAX_FILES_MERGED_ON_SITE if on_site else max_files
    max_bytes = (rules.n_gb_per_merge_job or MERGED_GB) * GB_BYTES
    max_events = None if on_site else rules.n_events_per_merge_job
    made: list[tuple[Producer, ...]] = []
    current: list[Producer] = []
    sizes: dict[int, int] = {}
    events = n_files = 0
    for producer in producers:
        grown, more = _grown(sizes, producer), len(producer.files) if on_site else 1
        too_large = max(grown.values(), default=0) > max_bytes
        too_many_events = max_events is not None and events + producer.n_events > max_events
        if current and (n_files + more > max_files or too_large or too_many_events):
            made.append(tuple(current))
            current, events, n_files, grown = [], 0, 0, _grown({}, producer)
        current.append(producer)
        sizes, events, n_files = grown, events + producer.n_events, n_files + more
    if current and (complete or n_files >= max_files):
        made.append(tuple(current))
    return made


def _grown(sizes: dict[int, int], producer: Producer) -> dict[int, int]:
    """Bytes by output dataset with one job's outputs more."""
    grown = dict(sizes)
    for unit in producer.files:
        grown[unit.dataset_id] = grown.get(unit.dataset_id, 0) + unit.size_bytes
    return grown


def by_memory(groups: Sequence[Sequence[Producer]]) -> dict[int | None, list[Unit]]:
    """Units of the groups by the memory that merging them was raised to."""
    found: dict[int | None, list[Unit]] = {}
    for group in groups:
        units = [unit for producer in group for unit in producer.files]
        found.setdefault(max((unit.ram_mb or 0 for unit in units), default=0) or None, []).extend(units)
    return found


def reported_file(report: Any, lfn: str) -> dict[str, Any]:
    """Size, GUID and checksum of a file in the pilot's report."""
    for one in report.outputs if report is not None else ():
        if one.lfn == lfn:
            return {"size_bytes": one.size_bytes, "guid": one.guid, "checksum": one.checksum}
    return {}


class UnmergedOutput(Protocol):
    """A row: the `status` of an unmerged output, and its `boundary_id`, the job that wrote it."""

    def __getitem__(self, name: str, /) -> Any: ...


def waits_for_merge(outputs: Collection[UnmergedOutput]) -> bool:
    """Whether a live merge job works on outputs of a job that was killed meanwhile.

    Its end must wait for that one's.
    """
    return any(row["status"] == "running" and row["boundary_id"] is not None for row in outputs)


def ended_by_merge(status: JobStatus, error_source: str | None, outputs: Collection[UnmergedOutput]) -> Ended:
    """How the input of a killed job ended: processed if all its outputs were merged after all."""
    if outputs and all_merged(outputs):
        return Ended("finished")
    return Ended(status, error_source)


def all_merged(outputs: Collection[UnmergedOutput]) -> bool:
    """Whether nothing that the job wrote waits for a merge job any more, or was given up."""
    return all(row["status"] in ("finished", "nooutput") for row in outputs)
