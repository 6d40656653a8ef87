"""A queue (PanDA queue) as CRIC describes it: the file's field names outside, unit-named inside.

Fields that CRIC has and nothing here reads are ignored; fields that are read must be in range, or the grid is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.model.problems import Problem, problems_of
from shared.model.resource_types import QueuePart, ResourceType, queue_part
from shared.model.whole_numbers import LARGEST_INT4

#: values of an option that switch it off
_NO = ("", "0", "false", "none", "no")
#: corecount of a queue whose jobs say themselves how many cores their slot has
TASK_DECIDES = -1


class QueueStatus(StrEnum):
    """Whether a queue takes work; production needs `online` unless the queue was named by the task."""

    ONLINE = "online"
    STANDBY = "standby"
    BROKEROFF = "brokeroff"
    TEST = "test"
    OFFLINE = "offline"
    PAUSED = "paused"


class QueueType(StrEnum):
    """Which work a queue takes: `unified` takes both."""

    PRODUCTION = "production"
    ANALYSIS = "analysis"
    UNIFIED = "unified"


class Connectivity(StrEnum):
    """Outbound network of worker nodes, from most to least."""

    FULL = "full"
    HTTP = "http"
    NONE = "none"


@dataclass(frozen=True)
class Queue:
    """One queue; memory and directory limits are MB per job slot, zero means no limit, times are seconds.

    Memory limits are for each core of a slot where `per_core_attr` says so; `part_for` gives those of a slot.
    `site_storages` are for a queue that names no storage: the site's default, then its disks. A grid fills them in.
    """

    name: str
    site: str
    status: QueueStatus
    type: QueueType
    cloud: str = ""
    capability: str = "score"
    workflow: str = ""
    jobseed: str = "std"
    core_count: int = 1
    core_power_hs06: float = 0.0
    min_time_s: int = 0
    max_time_s: int = 0
    min_rss_mb: int = 0
    max_rss_mb: int = 0
    mean_rss_mb: int = 0
    max_work_dir_mb: int = 0
    max_input_size_mb: int = 0
    max_disk_io_kb_s: int = 0
    pledged_cpu: int = 0
    transferring_limit: int = 0
    fair_share_policy: str = ""
    releases: tuple[str, ...] = ()
    direct_access_lan: bool = False
    direct_access_wan: bool = False
    is_cvmfs: bool = False
    connectivity: str = Connectivity.FULL
    ip_stack: str = ""
    transfer_time_high_days: int = 2
    transfer_time_low_days: int = 7
    options: Mapping[str, str] = field(default_factory=dict)
    read_storages: tuple[str, ...] = ()
    write_storages: tuple[str, ...] = ()
    analysis_read_storages: tuple[str, ...] = ()
    analysis_write_storages: tuple[str, ...] = ()
    site_storages: tuple[str, ...] = ()
    object_stores: tuple[str, ...] = ()

    @property
    def is_unified(self) -> bool:
        """Unified queues (`capability` ucore) are cut into one pseudo-queue for each resource type."""
        return self.capability == "ucore"

    @property
    def is_virtual_placement(self) -> bool:
        """Queues without storage of their own that read through a cache (VP queues)."""
        return self.name.upper().endswith("_VP") or self.options.get("use_vp", "").lower() == "true"

    @property
    def runs_jumbo_jobs(self) -> bool:
        """Queues kept for jumbo jobs, by either spelling of the option."""
        return self.has("useJumboJobs") or self.has("useJumbo")

    def has(self, option: str) -> bool:
        """Whether an option of the queue is named and not switched off."""
        return self.options.get(option, "").lower() not in _NO

    @property
    def _rss_is_per_core(self) -> bool:
        return self.options.get("per_core_attr", "").lower() == "true"

    def part_for(self, resource_type: ResourceType | None, task_cores: int | None = None) -> QueuePart | None:
        """The slot of one job, of a resource type where the queue is unified; None: too few cores for it.

        minrss and maxrss of a queue with `per_core_attr` are multiplied by the cores of the whole slot first, and only
        then is the slot cut for the type. Where the task decides (corecount -1) the slot is as large as the task's
        cores (a task that takes any number: the fewest of the type), and a type of several numbers of cores has a slot
        of -1 cores as long as no task is named.
        """
        kind = resource_type if self.is_unified else None
        if self.core_count != TASK_DECIDES:
            return self._cut(self.core_count, kind)
        fewest, most = (kind.min_cores or 1, kind.max_cores) if kind else (1, None)
        if task_cores is None:
            return self._cut(fewest, kind) if fewest == most else self._slot(TASK_DECIDES)
        cores = task_cores or fewest
        return None if most is not None and cores > most else self._cut(cores, kind)

    def _slot(self, cores: int) -> QueuePart:
        times = max(1, cores) if self._rss_is_per_core else 1
        return QueuePart(cores, self.min_rss_mb * times, self.max_rss_mb * times)

    def _cut(self, cores: int, resource_type: ResourceType | None) -> QueuePart | None:
        whole = self._slot(cores)
        return whole if resource_type is None else queue_part(cores, whole.min_rss_mb, whole.max_rss_mb, resource_type)

    def work_dir_of(self, part: QueuePart) -> float:
        """A slot's share of maxwdir, MB: by cores; all of it where the task decides how large the slot is."""
        if self.core_count == TASK_DECIDES:
            return float(self.max_work_dir_mb)
        return self.max_work_dir_mb * max(1, part.core_count) / max(1, self.core_count)

    def storages(self, role: str, *, analysis: bool) -> tuple[str, ...]:
        """Endpoints to `read` from or to `write` to, in order of preference.

        Analysis work takes the `_analysis` list where the record names one, all other work the general list; where the
        list is empty, the storages of the site. A list for reading is never written to.
        """
        own, general = {
            "read": (self.analysis_read_storages, self.read_storages),
            "write": (self.analysis_write_storages, self.write_storages),
        }[role]
        named = own if analysis and own else general
        if named or (role == "read" and self._reads_from_afar):
            return named
        return self.site_storages

    def output_storage(self, *, analysis: bool) -> str | None:
        """Where the pilot writes; None: the queue has no storage, and nothing that makes output can run there."""
        return next(iter(self.storages("write", analysis=analysis)), None)

    def input_storage(self, *, analysis: bool) -> str | None:
        """Where missing input is moved; None where the queue reads from afar, or has no storage."""
        named = self.storages("read", analysis=analysis)
        return None if self.is_virtual_placement or not named else named[0]

    @property
    def _reads_from_afar(self) -> bool:
        return self.is_virtual_placement or self.direct_access_wan


def _none_is_zero(value: Any) -> Any:
    return 0 if value is None or value == "" else value


def _none_is_empty(value: Any) -> Any:
    return "" if value is None else value


def _words(value: Any) -> Any:
    """CRIC writes lists of words as lists, and older entries as text separated by commas or bars."""
    if value is None:
        return ()
    return [word.strip() for word in re.split(r"[,|]", value) if word.strip()] if isinstance(value, str) else value


Count = Annotated[int, BeforeValidator(_none_is_zero), Field(ge=0, le=LARGEST_INT4)]
Flag = Annotated[bool, BeforeValidator(lambda value: False if value is None else value)]
Text = Annotated[str, BeforeValidator(_none_is_empty), Field(max_length=4000)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Name = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+-]*$")]


class CricQueue(BaseModel):
    """The edge: one record of queues.json, names and units unchanged."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    siteid: Name
    atlas_site: Name
    status: QueueStatus
    type: QueueType
    cloud: Text = ""
    capability: Annotated[
        str, BeforeValidator(lambda value: value or "score"), Field(pattern="^(ucore|mcore|score)$")
    ] = "score"
    workflow: Text = ""
    jobseed: Annotated[str, BeforeValidator(lambda value: value or "std"), Field(pattern="^(std|es|eshigh|all)$")] = (
        "std"
    )
    corecount: Annotated[int, BeforeValidator(_none_is_zero), Field(ge=-1, le=100_000)] = 1
    corepower: Annotated[float, BeforeValidator(_none_is_zero), Field(ge=0, le=10_000)] = 0.0
    mintime: Count = 0
    maxtime: Count = 0
    minrss: Count = 0
    maxrss: Count = 0
    meanrss: Count = 0
    maxwdir: Count = 0
    maxinputsize: Annotated[int, BeforeValidator(_none_is_zero), Field(ge=-1)] = 0
    maxdiskio: Count = 0
    pledgedcpu: Annotated[int, BeforeValidator(_none_is_zero), Field(ge=-1)] = 0
    transferringlimit: Count = 0
    fairsharepolicy: Text = ""
    releases: Words = ()
    is_cvmfs: Flag = False
    direct_access_lan: Flag = False
    direct_access_wan: Flag = False
    wnconnectivity: Annotated[
        str, BeforeValidator(lambda value: value or "full"), Field(pattern=r"^(full|http|none)?(#(IPv4|IPv6)?)?$")
    ] = "full"
    transtimehi: Annotated[int, BeforeValidator(lambda value: value or 2), Field(ge=0, le=365)] = 2
    transtimelo: Annotated[int, BeforeValidator(lambda value: value or 7), Field(ge=0, le=365)] = 7
    catchall: Text = ""
    params: Annotated[dict[str, Any], BeforeValidator(lambda value: value or {})] = {}
    astorages: Annotated[dict[str, list[str]], BeforeValidator(lambda value: value or {})] = {}
    objectstores: Annotated[list[int | str | dict[str, Any]], BeforeValidator(lambda value: value or [])] = []


def options_of(catchall: str, params: Mapping[str, Any]) -> dict[str, str]:
    """`catchall` ("key=value,flag") and `params` as one mapping; `params` wins; a bare flag is "true"."""
    options: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in catchall.split(","))):
        key, separator, value = part.partition("=")
        options[key.strip()] = value.strip() if separator else "true"
    for key, value in params.items():
        options[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return options


def _endpoints(astorages: Mapping[str, list[str]], role: str, scope: str) -> tuple[str, ...]:
    """Endpoints of one role (read_lan, read_lan_analysis, ...); their order is preference."""
    name = f"{role}_lan_{scope}" if scope else f"{role}_lan"
    return tuple(dict.fromkeys(astorages.get(name, ())))


def stored_queue(name: str, record: Mapping[str, Any]) -> Queue | None:
    """The queue of a record that was loaded once; None where it would not be loaded now."""
    found = queue_from_cric(name, record)
    return found if isinstance(found, Queue) else None


def queue_from_cric(key: str, record: Mapping[str, Any], file: str = "queues.json") -> Queue | list[Problem]:
    """One CRIC record as a Queue, or everything that is wrong with it."""
    try:
        raw = CricQueue.model_validate({"siteid": key, **record})
    except ValidationError as error:
        return problems_of(file, key, error)
    if raw.siteid != key and key:
        return [Problem(file, key, "siteid", f"{raw.siteid!r} differs from the key it is listed under")]
    network, _, stack = raw.wnconnectivity.partition("#")
    problems = [
        Problem(file, key, low, f"{getattr(raw, low)} is larger than {high} {getattr(raw, high)}")
        for low, high in (("mintime", "maxtime"), ("minrss", "maxrss"))
        if getattr(raw, high) and getattr(raw, low) > getattr(raw, high)
    ]
    if problems:
        return problems
    return Queue(
        name=raw.siteid,
        site=raw.atlas_site,
        status=raw.status,
        type=raw.type,
        cloud=raw.cloud,
        capability=raw.capability,
        workflow=raw.workflow,
        jobseed=raw.jobseed,
        core_count=raw.corecount,
        core_power_hs06=raw.corepower,
        min_time_s=raw.mintime,
        max_time_s=raw.maxtime,
        min_rss_mb=raw.minrss,
        max_rss_mb=raw.maxrss,
        mean_rss_mb=raw.meanrss,
        max_work_dir_mb=raw.maxwdir,
        max_input_size_mb=raw.maxinputsize,
        max_disk_io_kb_s=raw.maxdiskio,
        pledged_cpu=raw.pledgedcpu,
        transferring_limit=raw.transferringlimit,
        fair_share_policy=raw.fairsharepolicy,
        releases=raw.releases,
        direct_access_lan=raw.direct_access_lan,
        direct_access_wan=raw.direct_access_wan,
        is_cvmfs=raw.is_cvmfs,
        connectivity=network or "full",
        ip_stack=stack,
        transfer_time_high_days=raw.transtimehi,
        transfer_time_low_days=raw.transtimelo,
        options=options_of(raw.catchall, raw.params),
        read_storages=_endpoints(raw.astorages, "read", ""),
        write_storages=_endpoints(raw.astorages, "write", ""),
        analysis_read_storages=_endpoints(raw.astorages, "read", "analysis"),
        analysis_write_storages=_endpoints(raw.astorages, "write", "analysis"),
        # ids as pilots report them, by themselves or in records
        object_stores=tuple(str(one.get("os_bucket_id") if isinstance(one, dict) else one) for one in raw.objectstores),
    )
