"""What a pilot offers, and which shapes of jobs fit it: computed once per kind of pilot, not per job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.model.analysis import ANALYSIS_LABELS
from shared.order.matching import TaskQueueOffer

#: what of a shape may not fit, in the order in which it is looked at
Requirement = Literal["vo", "label", "resource_type", "memory", "mean_memory", "disk", "time"]
#: what a pilot that says the key may run; a label that is not listed runs only itself
LABELS: dict[str, frozenset[str]] = {
    "managed": frozenset({"managed", "test", "prod_test", "install"}),
    "user": ANALYSIS_LABELS,
    "test": frozenset({"test", "prod_test", "ptest", "rc_test", "rc_test2", "rc_alrb", "install"}),
}
#: a pilot for a unified queue takes every label
EVERY_LABEL = frozenset({"", "unified", "any"})


@dataclass(frozen=True)
class Shape:
    """The requirements that all jobs of a lane share; urgent ones ignore shares (JEDI: Express transfers)."""

    shape_id: int
    prod_source_label: str
    resource_type: str
    core_count: int
    ram_mb: int
    disk_mb: int
    walltime_s: int
    is_urgent: bool = False
    vo: str = ""


@dataclass(frozen=True)
class PilotKind:
    """What decides whether a job fits, in the pilot interface's units; 0 and "" mean "no limit stated".

    `task_queues`: what it says to task queues, where it says anything. `mean_memory_mb`: for each core, where jobs at
    its queue have more than that on average (PanDA: mean memory limit for push queues).
    `vos`: whose jobs it runs, None for every VO's.
    """

    prod_source_label: str = ""
    resource_type: str = ""
    memory_mb: int = 0
    disk_mb: int = 0
    remaining_s: int = 0
    task_queues: TaskQueueOffer | None = None
    mean_memory_mb: int = 0
    vos: frozenset[str] | None = None


@dataclass(frozen=True)
class Offer:
    """One acquire: where the pilot is, what it can run, and the subject of its token.

    With `task_id`, `user_name` or `working_group` it asks for the jobs of these only. `takes_new` False: only the job
    that the request's key got before.
    """

    queue: str
    kind: PilotKind = PilotKind()
    worker: str | None = None
    task_id: int | None = None
    subject: str | None = None
    takes_new: bool = True
    user_name: str | None = None
    working_group: str | None = None

    @property
    def is_for_all(self) -> bool:
        """Whether jobs of anybody will do."""
        return self.task_id is None and self.user_name is None and self.working_group is None

    @property
    def asks_for(self) -> str:
        """In words, whose jobs it asks for; "" for anybody's."""
        wanted = (("task", self.task_id), ("user", self.user_name), ("working group", self.working_group))
        return ", ".join(f"{name} {value}" for name, value in wanted if value)


@dataclass(frozen=True)
class Misfit:
    """Why a shape does not fit a pilot: the requirement, and a sentence with both numbers."""

    what: Requirement
    reason: str

    def __str__(self) -> str:
        return self.reason


def misfit(shape: Shape, kind: PilotKind) -> Misfit | None:
    """Why a shape does not fit a pilot, or None if it does. A shape of no VO is for pilots of each."""
    if kind.vos is not None and shape.vo and shape.vo not in kind.vos:
        return Misfit("vo", f"of another VO: the pilot runs jobs of {', '.join(sorted(kind.vos)) or 'none'}")
    label = kind.prod_source_label
    if label not in EVERY_LABEL and shape.prod_source_label not in LABELS.get(label, frozenset({label})):
        return Misfit("label", f"label {shape.prod_source_label}, the pilot takes {label}")
    if kind.resource_type and shape.resource_type != kind.resource_type:
        return Misfit("resource_type", f"resource type {shape.resource_type}, the pilot takes {kind.resource_type}")
    if kind.memory_mb and shape.ram_mb > kind.memory_mb:
        return Misfit("memory", f"memory {shape.ram_mb} MB, the pilot has {kind.memory_mb} MB")
    if kind.mean_memory_mb and shape.ram_mb > kind.mean_memory_mb * shape.core_count:
        reason = f"memory {shape.ram_mb} MB for {shape.core_count} cores, jobs at the queue have more than"
        return Misfit("mean_memory", f"{reason} {kind.mean_memory_mb} MB for a core on average")
    if kind.disk_mb and shape.disk_mb > kind.disk_mb:
        return Misfit("disk", f"disk {shape.disk_mb} MB, the pilot has {kind.disk_mb} MB")
    if kind.remaining_s and shape.walltime_s > kind.remaining_s:
        return Misfit("time", f"walltime {shape.walltime_s} s, the pilot has {kind.remaining_s} s left")
    return None
