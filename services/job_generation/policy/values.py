"""Values that job generation decides on: a task, its datasets and units, queues, templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from shared.brokerage.smallest_job import is_shared
from shared.model.analysis import is_analysis
from shared.model.dataset_types import INPUT_TYPES, LOG_TYPES, PREPROCESS_INPUT
from shared.model.names import scope_of
from shared.model.queue import QueueStatus
from shared.model.storage import Storage
from shared.model.units import Ram
from shared.states.dataset import DatasetStatus
from shared.states.task import TaskStatus
from shared.task.in_effect import SplitRules
from shared.task.needs import WorkNeeds

NO_RAM = Ram(0, per_core=False, fixed=False)
#: jumbo jobs of a task: waiting for the first, running, pending (nothing to do), lack (fewer than wanted), disabled
UseJumbo = Literal["W", "R", "P", "L", "D"]


class Unit(NamedTuple):
    """One row of input: a file, or a range of its events. A tuple, as a chunk has thousands of them.

    `n_events` are the unit's, `size_bytes` and `file_events` the whole file's; `boundary_id` of an unmerged output is
    the job that made it.
    """

    file_id: int
    lfn: str
    size_bytes: int = 0
    n_events: int | None = None
    start_event: int | None = None
    end_event: int | None = None
    first_event: int | None = None
    boundary_id: int | None = None
    lumi_block: int | None = None
    dataset_id: int = 0
    scope: str | None = None
    guid: str | None = None
    checksum: str | None = None
    attempt_nr: int = 0
    ram_mb: int | None = None
    previous_job_id: int | None = None
    file_events: int | None = None
    avoided_site: str | None = None

    @property
    def events(self) -> int | None:
        """Events of this unit; None when unknown."""
        if self.n_events is None and self.start_event is not None and self.end_event is not None:
            return self.end_event - self.start_event + 1
        return self.n_events

    @property
    def effective_bytes(self) -> float:
        """Size x used events / events of the file."""
        used = self.events
        if self.start_event is None or not self.file_events or used is None:
            return float(self.size_bytes)
        return self.size_bytes * min(1.0, used / self.file_events)


@dataclass(frozen=True)
class Dataset:
    """One dataset of a task; `attributes` as in JEDI: Dataset attributes.

    `is_open`: the catalogue may add files. `template_id`: what a dataset of one `site` was made from, or the final
    dataset of unmerged files.
    """

    dataset_id: int
    name: str
    type: str
    status: DatasetStatus
    stream_name: str | None
    master_id: int | None
    n_files: int = 0
    n_files_to_be_used: int = 0
    n_files_used: int = 0
    n_files_finished: int = 0
    n_files_failed: int = 0
    n_files_on_hold: int = 0
    provenance_id: int | None = None
    storage_token: str | None = None
    destination: str | None = None
    container_name: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    is_open: bool = False
    given_scope: str | None = None
    template_id: int | None = None
    site: str | None = None

    @property
    def is_master(self) -> bool:
        """Masters are split; secondary datasets follow by ratio.

        What a pre-processing job works on is neither.
        """
        is_input = self.type in INPUT_TYPES and self.type != PREPROCESS_INPUT
        return is_input and self.master_id in (None, self.dataset_id)

    @property
    def n_files_ended(self) -> int:
        """Units that nothing works on any more."""
        return self.n_files_finished + self.n_files_failed

    @property
    def is_processed(self) -> bool:
        """Whether every unit of this master is finished, and the catalogue adds no more files."""
        return self.is_master and not self.is_open and 0 < self.n_files <= self.n_files_finished

    @property
    def is_shared(self) -> bool:
        """Used by many jobs, so that no job owns its files: nosplit, repeat and reusable."""
        return is_shared(self.attributes)

    @property
    def allows_no_output(self) -> bool:
        """Whether its jobs may end well without having written it (allowNoOutput)."""
        return self.attributes.get("allowNoOutput") not in (None, False, "false")

    @property
    def scope(self) -> str:
        """The one that the dataset was named with or has in the catalogue, else what its name says."""
        return self.given_scope or scope_of(self.name)

    @property
    def short_name(self) -> str:
        """The name without its scope."""
        return self.name.split(":", 1)[-1]


@dataclass(frozen=True)
class Template:
    """How files of one output dataset are named; `next_serial` is the next number to give."""

    template_id: int
    dataset_id: int
    file_name: str
    stream_name: str
    dataset_type: str
    next_serial: int = 1

    @property
    def is_log(self) -> bool:
        """Whether it names logs."""
        return self.dataset_type.removeprefix("tmpl_") in LOG_TYPES


@dataclass(frozen=True)
class Task:
    """A task as generation sees it; `parameters` are those that were submitted."""

    task_id: int
    status: TaskStatus
    name: str
    user_name: str
    prod_source_label: str
    priority: int
    gshare: str
    resource_type: str
    core_count: int
    needs: WorkNeeds
    rules: SplitRules
    vo: str | None = None
    old_status: TaskStatus | None = None
    task_type: str | None = None
    processing_type: str | None = None
    working_group: str | None = None
    nucleus: str | None = None
    request_id: int | None = None
    architecture: str | None = None
    trans_path: str | None = None
    trans_home: str | None = None
    trans_uses: str | None = None
    campaign: str | None = None
    container_name: str | None = None
    merge_core_count: int | None = None
    merge_ram: Ram = NO_RAM
    merge_walltime_s: int | None = None
    work_queue_id: int | None = None
    max_attempt: int = 3
    parameters: Mapping[str, Any] = field(default_factory=dict)
    use_jumbo: UseJumbo | None = None
    site: str | None = None

    @property
    def is_analysis(self) -> bool:
        """Whether it is analysis rather than production; its type decides, its label where there is none."""
        return is_analysis(self.task_type, self.prod_source_label)

    @property
    def uses_jumbo(self) -> bool:
        """Whether jumbo jobs may be made of it: they were switched on, and it names no site."""
        return self.rules.uses_event_service and self.use_jumbo not in (None, "D") and not self.site


@dataclass(frozen=True)
class OwnerStanding:
    """Live jobs of the owner of analysis jobs, and how far over the quota: priorities follow from it."""

    n_jobs: int = 0
    weight: float = 0.0


NOBODY = OwnerStanding()


@dataclass(frozen=True)
class QueueFacts:
    """One candidate: the part of a queue that serves a resource type.

    Zero limits mean no limit; MB and seconds.

    `platform`: what jobs of the task are told there (sw_platform<@base_platform>). `job_chunk_size`: it is given
    so many jobs together (jobChunkSize). `min_ranges_for_jumbo`: ranges that nobody has, below which it gets no jumbo
    job (minEventsForJumbo). `jobseed`: which event service it takes.
    """

    queue: str
    resource_type: str
    site: str
    core_count: int = 1
    core_power_hs06: float = 0.0
    max_time_s: int = 0
    min_time_s: int = 0
    max_rss_mb: int = 0
    max_work_dir_mb: float = 0
    max_input_size_mb: int = 0
    reads_directly: bool = False
    read_storage: str = ""
    write_storages: tuple[Storage, ...] = ()
    cloud: str = ""
    weight: float = 1.0
    max_jobs: int | None = None
    n_queued: int = 0
    platform: str = ""
    is_virtual_placement: bool = False
    job_chunk_size: int | None = None
    runs_jumbo_jobs: bool = False
    min_ranges_for_jumbo: int = 0
    status: QueueStatus = QueueStatus.ONLINE
    jobseed: str = "all"

    @property
    def key(self) -> str:
        """`QUEUE/TYPE`."""
        return f"{self.queue}/{self.resource_type}"


#: nobody writes to it
NO_SECONDARY: Mapping[int, tuple[Unit, ...]] = {}


class JobInput(NamedTuple):
    """What one job takes: master units in order, and units of each secondary dataset."""

    master: tuple[Unit, ...]
    secondary: Mapping[int, tuple[Unit, ...]] = NO_SECONDARY

    @property
    def n_events(self) -> int | None:
        """Sum over the master units; None as soon as one is unknown."""
        if len(self.master) == 1:
            return self.master[0].events
        total = 0
        for unit in self.master:
            events = unit.events
            if events is None:
                return None
            total += events
        return total

    @property
    def input_bytes(self) -> int:
        """Every file once, whole: that is what has to be read or copied."""
        if len(self.master) == 1 and not self.secondary:
            return self.master[0].size_bytes
        sizes = {unit.lfn: unit.size_bytes for unit in self.master}
        return sum(sizes.values()) + sum([unit.size_bytes for units in self.secondary.values() for unit in units])


class PlacedJob(NamedTuple):
    """One job's input and the queue it goes to."""

    queue: QueueFacts
    job: JobInput
