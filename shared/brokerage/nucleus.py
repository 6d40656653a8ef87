"""What is to be placed when a task is given a nucleus, and what is known of the nuclei."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from shared.brokerage.limits import TaskLimits
from shared.brokerage.request import InputDataset, JobRequest


@dataclass(frozen=True)
class RemainingWork:
    """Work that a nucleus still has (RW), in HS06 seconds.

    Of all its tasks, and of those with at least the priority of the task that is being placed.
    """

    total_hs06_s: float = 0.0
    at_least_priority_hs06_s: float = 0.0


@dataclass(frozen=True)
class TaskRequest:
    """One task without nucleus.

    `job`: a typical job of it, for the question whether a queue could run the work.

    `full_chain`: only, require, capable or nothing; `parent_nucleus` is that of the task's parent.
    `assigning_since`: since when it waits for a nucleus, if that is known.
    `t1_weight` negative: transfer backlogs do not matter. `local_on_master`: only the master input counts for locality.
    """

    task_id: int
    now: datetime
    job: JobRequest
    priority: int = 0
    gshare: str = ""
    io_intensity_kb_s: float = 0.0
    t1_weight: int = 0
    local_on_master: bool = False
    input_pre_staging: bool = False
    full_chain: str = ""
    parent_nucleus: str | None = None
    assigning_since: datetime | None = None
    inputs: tuple[InputDataset, ...] = ()
    remaining_work: Mapping[str, RemainingWork] = field(default_factory=dict)
    limits: TaskLimits = field(default_factory=TaskLimits)

    @property
    def has_waited_for_data(self) -> bool:
        """Whether it has been assigning longer than DATA_LOCATION_CHECK_PERIOD: locality no longer counts."""
        waited_s = (self.now - self.assigning_since).total_seconds() if self.assigning_since else 0.0
        return waited_s > self.limits.data_location_check_period_s

    @property
    def inputs_for_locality(self) -> tuple[InputDataset, ...]:
        """The inputs whose copies matter."""
        real = tuple(one for one in self.inputs if one.n_bytes or one.replicas)
        return tuple(one for one in real if one.is_master) if self.local_on_master else real
