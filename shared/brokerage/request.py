"""What is to be placed: the needs of one chunk's jobs, the smallest of them, and copies of the input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from shared.brokerage.analysis_facts import AnalysisFacts, AnalysisInput
from shared.brokerage.columns import QueueColumns
from shared.brokerage.limits import JobLimits
from shared.brokerage.matchmaking import Advert
from shared.brokerage.smallest_job import SmallestJob as SmallestJob  # noqa: PLC0414 (part of a request's value)
from shared.brokerage.smallest_job import smallest_job as smallest_job  # noqa: PLC0414
from shared.brokerage.software import SoftwareNeeds
from shared.model.urgency import is_urgent
from shared.task.needs import WorkNeeds

T = TypeVar("T")

HIGH_PRIORITY = 800
IGNORE_LOCALITY_PRIORITY = 2000


@dataclass(frozen=True)
class InputReplica:
    """So many files and bytes of one dataset's wanted files are at one storage."""

    storage: str
    n_files: int
    n_bytes: int
    is_tape: bool = False


@dataclass(frozen=True)
class InputDataset:
    """One input of the work: how much of it is wanted, and its copies.

    Pseudo inputs have no bytes and no copies.
    """

    name: str
    n_files: int
    n_bytes: int
    replicas: tuple[InputReplica, ...] = ()
    is_master: bool = True


def part_of(replica_files: int, dataset_files: int, complete: bool, n_files: int, n_bytes: int) -> tuple[int, int]:
    """How many of some wanted files and bytes a copy has: all if it is complete, otherwise in proportion."""
    if complete:
        return n_files, n_bytes
    share = min(1.0, replica_files / dataset_files) if dataset_files > 0 else 0.0
    return int(n_files * share), int(n_bytes * share)


@dataclass(frozen=True)
class JobRequest:
    """One chunk to be placed (or a task, when asking whether anything could run it).

    `preassigned`: only these queues, and their status does not matter. `now`: the time of the decision.
    `most_events`: of a job whose number of events is dynamic. `is_pre_merged`: ordinary jobs whose output will be
    merged. `full_chain`: only, require, capable or nothing. `uses_jumbo`: jumbo jobs are switched on for the task.
    """

    task_id: int
    now: datetime
    needs: WorkNeeds
    chunk_id: int | None = None
    vo: str = ""
    label: str = "managed"
    is_analysis: bool = False
    processing_type: str = ""
    working_group: str = ""
    gshare: str = ""
    user_name: str = ""
    resource_type: str = ""
    priority: int = 0
    is_scout: bool = False
    is_merge: bool = False
    is_pre_merged: bool = False
    is_event_service: bool = False
    uses_jumbo: bool = False
    dynamic_number_of_events: bool = False
    most_events: int = 0
    t1_weight: int = 0
    full_chain: str = ""
    software: SoftwareNeeds = field(default_factory=SoftwareNeeds)
    direct_access_only: bool = False
    nucleus: str | None = None
    preassigned: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    copies_to_scratch: bool = False
    job: SmallestJob = field(default_factory=SmallestJob)
    n_jobs: int = 1
    inputs: tuple[InputDataset, ...] = ()
    limits: JobLimits = field(default_factory=JobLimits)
    site_adverts: tuple[Advert, ...] = ()
    stations: tuple[str, ...] = ()
    requirements: str = ""
    analysis: AnalysisInput | None = field(default=None, compare=False, repr=False)
    # What several checks need, computed once; never part of the value, never copied.
    _known: dict[str, tuple[QueueColumns, Any]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what was computed on the way."""
        return {**self.__dict__, "_known": {}}

    def once(self, name: str, columns: QueueColumns, compute: Callable[[], T]) -> T:
        """What `compute` gives for these columns, computed the first time only."""
        known = self._known.get(name)
        if known is None or known[0] is not columns:
            known = self._known[name] = (columns, compute())
        return cast(T, known[1])

    def analysis_facts(self, columns: QueueColumns) -> AnalysisFacts | None:
        """What analysis brokerage knows of user and task at the queues; None for other work."""
        return None if self.analysis is None else self.analysis.facts(columns, self.now)

    @property
    def is_urgent(self) -> bool:
        """processingType urgent, or priority 1000 and more."""
        return is_urgent(self.processing_type, self.priority)

    @property
    def input_bytes(self) -> int:
        return sum(dataset.n_bytes for dataset in self.inputs)

    @property
    def input_files(self) -> int:
        return sum(dataset.n_files for dataset in self.inputs if dataset.n_bytes or dataset.replicas)


@dataclass(frozen=True)
class LocalData:
    """For each row: bytes at hand, and files and bytes that would have to be moved."""

    available_bytes: NDArray[np.float64]
    missing_files: NDArray[np.float64]
    missing_bytes: NDArray[np.float64]


def local_data(columns: QueueColumns, request: JobRequest, *, with_tape: bool = False) -> LocalData:
    """The best copy of each dataset among a row's read storages, summed; on tape only if asked."""
    name = "local_data with tape" if with_tape else "local_data"
    return request.once(name, columns, lambda: _local_data(columns, request, with_tape))


def _local_data(columns: QueueColumns, request: JobRequest, with_tape: bool) -> LocalData:
    index = columns.rows_of_analysis_read_storage if request.is_analysis else columns.rows_of_read_storage
    available, missing, missing_bytes = np.zeros(len(columns)), np.zeros(len(columns)), np.zeros(len(columns))
    for dataset in request.inputs:
        if not dataset.n_bytes and not dataset.replicas:
            continue
        files, size = np.zeros(len(columns)), np.zeros(len(columns))
        for replica in dataset.replicas:
            rows = index.get(replica.storage)
            if rows is not None and (with_tape or not replica.is_tape):
                files[rows] = np.maximum(files[rows], min(replica.n_files, dataset.n_files))
                size[rows] = np.maximum(size[rows], min(replica.n_bytes, dataset.n_bytes))
        available += size
        missing += dataset.n_files - files
        missing_bytes += dataset.n_bytes - size
    return LocalData(available, missing, missing_bytes)
