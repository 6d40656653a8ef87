"""The world file: all that a brokerage decision reads, as one JSON document.

`orrery snapshot save` writes it, `orrery dry-run` reads it.

Queues, sites, storages, network metrics, software map, resource types and shares have the form of a grid folder's
files: the field's names and units, unchanged. The rest is what a live system counts; without it nothing ever ran.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.model.grid import FILES
from shared.model.problems import InvalidGrid, Problem
from shared.states.job import JobStatus

FORMAT = "orrery-world/1"


class _WorldPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsCounted(_WorldPart):
    """So many jobs of one share and user of a VO ("": of none) at one queue in one state."""

    queue: str
    resource_type: str = ""
    gshare: str = ""
    user_name: str = ""
    vo: str = ""
    status: JobStatus
    n_jobs: int
    n_cores: int = 0


class SignsOfLife(_WorldPart):
    """What pilots of a queue told; `known_since`: nothing can be said about silence before."""

    last_pilot_at: datetime | None = None
    last_job_start_at: datetime | None = None
    known_since: datetime | None = None
    mean_disk_io_kb_s_per_core: float | None = None


class Workers(_WorldPart):
    """Batch workers of a queue, and slots set for proactive assignment.

    `slots_of_type`: slots by resource type; `n_slots`: slots for those types of the queue together that have no number
    of their own; null: none are set.
    """

    running: int = 0
    submitted: int = 0
    n_slots: int | None = None
    slots_of_type: dict[str, int] = {}


class RemainingWorkRow(_WorldPart):
    """Work left of tasks of one priority at a nucleus."""

    nucleus: str
    priority: int
    hs06_s: float


class Outcomes(_WorldPart):
    """How jobs of one task at one queue started and ended within an hour."""

    hour: datetime
    queue: str
    gshare: str = ""
    task_id: int
    n_started: int = 0
    n_finished: int = 0
    n_failed: int = 0
    n_closed: int = 0


class StartWaits(_WorldPart):
    """Time between creation and start of the jobs that started within an hour, as sums."""

    hour: datetime
    queue: str
    gshare: str = ""
    job_type: str = ""
    n_jobs: int
    wait_s: float
    wait_squared_s2: float


class WaitingMergeJob(_WorldPart):
    """An analysis merge job that waits for its start."""

    queue: str
    since: datetime


class QueueHistory(_WorldPart):
    """The last days of the queues."""

    outcomes: list[Outcomes] = []
    waits: list[StartWaits] = []
    waiting_merge_jobs: list[WaitingMergeJob] = []


class UserUsage(_WorldPart):
    """Disk of a user, in GB; null: no quota."""

    disk_quota_gb: float | None = None
    disk_used_gb: float | None = None


class UserUsageOfVo(UserUsage):
    """What holds for a user in one VO, instead of what holds in all."""

    user_name: str
    vo: str


class GroupUsage(_WorldPart):
    """Jobs and cores of a working group."""

    running_jobs: int = 0
    queued_jobs: int = 0
    running_cores: int = 0
    queued_cores: int = 0


class GroupUsageOfVo(GroupUsage):
    """Those of a working group of one VO, instead of what holds for a group of that name in every VO."""

    working_group: str
    vo: str


class SiteAdvert(_WorldPart):
    """What a site advertised about itself (SAM-Grid), and what was matched since."""

    site: str
    max_jobs: int | None = None
    max_submitting_jobs: int | None = None
    current_jobs: int | None = None
    current_submitting_jobs: int | None = None
    current_matches: int = 0
    requirements: str | None = None
    advertisement: dict[str, Any] = {}
    expires_at: datetime


class UserGroup(_WorldPart):
    """What a group of users is due, and how it is divided."""

    vo: str
    name: str
    job_share: float = Field(1000.0, ge=0)
    job_sharing: bool = False
    allows_background: bool = False


class WaitingTaskQueue(_WorldPart):
    """A task queue with its waiting jobs: how many of each user priority, from 0 to 10."""

    vo: str
    user_name: str
    user_group: str = ""
    cpu_segment_s: int = 360
    sites: list[str] = []
    banned_sites: list[str] = []
    platforms: list[str] = []
    tags: list[str] = []
    job_types: list[str] = []
    n_jobs: dict[Annotated[int, Field(ge=0, le=10)], Annotated[int, Field(ge=0)]]


class GroupCorrection(_WorldPart):
    """The factor of a group of users, or of one user in it."""

    vo: str
    user_group: str
    user_name: str = ""
    correction_factor: float = Field(gt=0)


class ParameterRow(_WorldPart):
    """A runtime parameter that was set; anything else has its default."""

    app: str = "jedi"
    component: str
    key: str
    vo: str | None = None
    value: str
    type: Literal["str", "int", "float", "bool", "json"] = "str"


Records = dict[str, Any] | list[Any]


class WorldFile(BaseModel):
    """Everything a decision reads, at one time. `version` is that of the grid; a decision stores it."""

    model_config = ConfigDict(extra="forbid", title=FORMAT)
    format: Literal["orrery-world/1"]
    now: datetime = Field(description="the time of the decisions; with a time zone")
    version: int = 0
    queues: Records = Field(description="CRIC records by name, or a list of them; names and units unchanged")
    sites: Records
    storages: Records
    network_metrics: dict[str, Any] = Field({}, description='by "source:destination", as the weather service dumps it')
    closeness: dict[str, int] = Field({}, description='by "source:destination"; counts before network_metrics')
    software_map: dict[str, Any] = {}
    resource_types: list[dict[str, Any]] | None = None
    shares: list[dict[str, Any]] = []
    statistics: list[JobsCounted] = []
    pilots: dict[str, SignsOfLife] = Field({}, description="by queue")
    workers: dict[str, Workers] = Field({}, description="by queue")
    history: QueueHistory = QueueHistory()
    nucleus_remaining_work: list[RemainingWorkRow] = []
    share_usage: dict[str, float] = Field({}, description="running cores by share")
    share_corrections: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="factors of shares, from what was used before; 1 where none is named"
    )
    user_usage: dict[str, UserUsage] = {}
    user_usage_of_vos: list[UserUsageOfVo] = []
    group_usage: dict[str, GroupUsage] = {}
    group_usage_of_vos: list[GroupUsageOfVo] = []
    site_adverts: list[SiteAdvert] = []
    user_groups: list[UserGroup] = []
    group_corrections: list[GroupCorrection] = []
    task_queues: list[WaitingTaskQueue] = Field([], description="of VOs that use them")
    parameters: list[ParameterRow] = []

    def grid_files(self) -> dict[str, Any]:
        """The part that is a grid, as the files of a grid folder."""
        files = {name: getattr(self, name) for name in FILES if getattr(self, name)}
        links = {pair: dict(record) for pair, record in self.network_metrics.items()}
        for pair, closeness in self.closeness.items():
            source, _, destination = pair.partition(":")
            link = links.setdefault(pair, {"src": source, "dst": destination})
            link["closeness"] = {**(link.get("closeness") or {}), "latest": closeness}
        return {**files, "queues": self.queues, "sites": self.sites, "storages": self.storages} | (
            {"network_metrics": links} if links else {}
        )


def parse_world(content: Any, name: str = "world") -> WorldFile:
    """A decoded world file. Raises InvalidGrid with every problem of its form."""
    try:
        world = WorldFile.model_validate(content)
    except ValidationError as error:
        raise InvalidGrid(
            [Problem(name, ".".join(str(part) for part in one["loc"]), "", one["msg"]) for one in error.errors()]
        ) from None
    if world.now.tzinfo is None:
        raise InvalidGrid([Problem(name, "now", "", "needs a time zone, such as 2026-01-01T00:00:00+00:00")])
    return world
