"""What makes one queue fail one check, in parts that can be combined: the bullets of the documents as data.

Everything is about queue Q at site SAT. A part changes the queue, its storage, its jobs or the request; a case has a
part for each number, the first number that is left out and the last that passes, and the explanation that is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from services.cli.dry_run.document import Exclusion, document_of
from shared.brokerage.governed_by import GOVERNED_BY
from shared.brokerage.lifts import LIFTED_BY
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset
from shared.brokerage.software import SoftwareNeeds
from shared.model.architecture import parse_architecture
from shared.model.link import Link
from shared.model.queue import Queue, QueueStatus
from shared.model.site import Site
from tests.unit.brokerage.worlds import NOW, a_queue, a_storage, a_world

QUEUE, SITE, NUCLEUS, OTHER = "Q", "SAT", "NUC", "OTHER"
LONG_AGO = NOW - timedelta(days=9)


@dataclass(frozen=True)
class Part:
    """Changes to what would pass. `link` is that from SAT to the nucleus, `far` one from elsewhere to it.

    From `limits` on only analysis looks: its parameters, task, jobs counted, outcomes and usage.
    """

    queue: Mapping[str, Any] = field(default_factory=dict)
    storage: Mapping[str, Any] = field(default_factory=dict)
    nucleus: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    far: Mapping[str, Any] = field(default_factory=dict)
    activity: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    jobs: tuple[JobCount, ...] = ()
    queues: tuple[Queue, ...] = ()
    inputs: tuple[InputDataset, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] = field(default_factory=dict)
    statistics: tuple[Any, ...] = ()
    outcomes: tuple[Any, ...] = ()


def both(first: Part, second: Part) -> Part:
    """Two parts at once; where they contradict each other the first is right."""
    values: dict[str, Any] = {}
    for one in fields(Part):
        left, right = getattr(first, one.name), getattr(second, one.name)
        values[one.name] = left + right if isinstance(left, tuple) else {**right, **left}
    return Part(**values)


@dataclass(frozen=True)
class Case:
    """One bullet: `check` leaves Q out for `bad`, not for `good`, and says `found` and `wanted`."""

    bullet: str
    check: str
    tier: str
    part: Callable[[Any], Part]
    bad: Any
    good: Any
    found: str
    wanted: str
    temporary: bool = False

    @property
    def broken(self) -> Part:
        return self.part(self.bad)

    @property
    def explanation(self) -> Exclusion:
        return Exclusion(
            name=QUEUE,
            check=self.check,
            tier=self.tier,
            temporary=self.temporary,
            found=self.found,
            wanted=self.wanted,
            parameters=list(GOVERNED_BY.get(self.check, ())),
            lifts=[lift.value for lift in LIFTED_BY[self.check]],
        )


def named(cases: tuple[Case, ...]) -> list[Any]:
    """For `parametrize`: each case under the name of its bullet."""
    return [pytest.param(one, id=one.bullet) for one in cases]


# A queue lacks one thing of a kind of software, the first; their order is tested with the software itself.
_SOFTWARE = {"cpu_hardware", "gpu_hardware", "container", "release"}


def neighbours(cases: tuple[Case, ...], *never_both: tuple[str, str]) -> list[Any]:
    """For `parametrize`: each two cases that follow each other, but those that cannot fail at once."""
    return [
        pytest.param(first, second, id=f"{first.check}-before-{second.check}")
        for first, second in pairwise(cases)
        if (first.check, second.check) not in never_both and not {first.check, second.check} <= _SOFTWARE
    ]


def world_of(part: Part, **more: Any) -> Any:
    """The world of a part; `more` queues and jobs."""
    name = part.queue.get("name", QUEUE)
    values = {key: value for key, value in part.queue.items() if key != "name"}
    links = [Link(SITE, NUCLEUS, queued_at=NOW, **part.link)] if part.link else []
    links += [Link("FAR", NUCLEUS, queued_at=NOW, **part.far)] if part.far else []
    jobs = [JobCount(name if one.queue == QUEUE else one.queue, "", one.status, one.n_jobs) for one in part.jobs]
    return a_world(
        [a_queue(name, SITE, **values), *part.queues, *more.get("queues", ())],
        storages=[a_storage(f"{SITE}_DATADISK", SITE, **part.storage)],
        sites=[Site(NUCLEUS, "ACTIVE", is_nucleus=True, **part.nucleus)],
        links=links,
        jobs=[*jobs, *more.get("jobs", ())],
        activities=[Activity(name, **part.activity)] if part.activity else [],
    )


def explanation(decision: Any, name: str = QUEUE) -> Exclusion | None:
    """What the decision's document says of one queue; None if it passed."""
    found = [one for one in document_of(decision).exclusions if one.name.split("/")[0] == name]
    return found[0] if found else None


def jobs(**counts: int) -> tuple[JobCount, ...]:
    """Jobs of Q by state."""
    return tuple(JobCount(QUEUE, "", status, n_jobs) for status, n_jobs in counts.items())


def software(architecture: str = "", **changes: Any) -> Part:
    """A task that needs some software, at a queue that lists release 1.0 and publishes nothing."""
    return Part(
        queue={"releases": ("1.0",)}, request={"software": SoftwareNeeds(parse_architecture(architecture), **changes)}
    )


def long_ago(hours: float, seconds: float) -> Any:
    return NOW - timedelta(hours=hours, seconds=seconds)


# The checks that production and analysis have in common, by their names; "maxwdir" is not the same.
COMMON = {
    one.check: one
    for one in (
        Case("only_pre_assigned_queues_are_used_if_there_are_any", "preassigned", "policy",
             lambda name: Part(request={"preassigned": (name,)}), OTHER, QUEUE,
             "named by the task or chunk no", "must be yes"),
        Case("includedSite_lists_the_only_queues_that_are_used", "included_sites", "policy",
             lambda name: Part(request={"included": (name,)}), OTHER, QUEUE,
             "among the included queues no", "must be yes"),
        Case("excludedSite_lists_queues_that_are_not_used", "excluded_sites", "policy",
             lambda name: Part(request={"excluded": (name, f"{name}_tEsT")}), QUEUE, OTHER,
             "among the excluded queues yes", "must be no"),
        Case("the_queue_status_must_be_online", "status", "configuration",
             lambda status: Part(queue={"status": status}), QueueStatus.BROKEROFF, QueueStatus.ONLINE,
             "status of the queue brokeroff", "status needed online"),
        Case("MAX_DISKIO_of_running_jobs_keeps_heavier_tasks_away", "disk_io", "capacity",
             lambda mean: Part(queue={"max_disk_io_kb_s": 300}, needs={"disk_io_kb_s": 4000.0},
                               activity={"mean_disk_io_kb_s_per_core": mean}), 301.0, 300.0,
             "disk IO of the task for each core 4000 kB/s", "at most 300 kB/s", temporary=True),
        Case("queues_with_useJumboJobs_are_for_tasks_with_jumbo_jobs", "jumbo", "configuration",
             lambda jumbo: Part(queue={"options": {"useJumboJobs": "true"}}, request={"uses_jumbo": jumbo}),
             False, True, "useJumboJobs of the queue yes", "must be no"),
        Case("core_counts_of_site_and_task_match", "core_count", "configuration",
             lambda cores: Part(queue={"core_count": cores}, needs={"core_count": 1}), 8, 1,
             "cores of a slot 8 cores", "cores of a job 1 cores"),
        Case("core_count_of_the_site_is_within_maxCoreCount_of_the_task", "max_core_count", "configuration",
             lambda limit: Part(queue={"core_count": 8, "max_rss_mb": 32_000},
                                needs={"core_count": 0, "max_core_count": limit}), 7, 8,
             "cores of a slot 8 cores", "at most 7 cores"),
        Case("CPU_hardware_is_there", "cpu_hardware", "configuration", software, "#aarch64", "",
             "CPU that the task needs is there no", "must be yes"),
        Case("GPU_hardware_is_there", "gpu_hardware", "configuration", software, "&nvidia", "",
             "GPU that the task needs is there no", "must be yes"),
        Case("the_fat_container_is_there", "container", "configuration",
             lambda name: software(container=name), "atlas/athena", "", "container of the task is there no",
             "must be yes"),
        Case("the_ATLAS_release_or_cache_is_there", "release", "configuration",
             lambda release: software(project="Athena", release=release), "1.1", "1.0",
             "release of the task is there no", "must be yes"),
        # (1000 MB + 4000 MB x 1 core) x 0.9 = 4500 MB
        Case("memory_is_not_above_the_maximum_of_the_queue", "memory_too_large", "configuration",
             lambda limit: Part(queue={"max_rss_mb": limit},
                                needs={"base_ram_mb": 1000, "ram_mb": 4000, "ram_per_core": True}), 4499, 4500,
             "memory of a job 4500 MB", "maxrss of the queue 4499 MB"),
        Case("memory_is_not_below_the_minimum_of_the_queue", "memory_too_small", "configuration",
             lambda limit: Part(queue={"min_rss_mb": limit}), 4501, 900,
             "memory of a job 900 MB", "minrss of the queue 4501 MB"),
        Case("the_queue_has_a_storage_for_output", "output_storage", "configuration",
             lambda names: Part(queue={"write_storages": names}), (), ("SAT_DATADISK",),
             "output storages 0 storages", "at least 1 storages"),
        Case("free_space_in_the_local_storage_is_over_200_GB", "free_space", "capacity",
             lambda free_gb: Part(storage={"space_free_gb": free_gb}), 200.0, 200.1,
             "usable space of the output storage 200 GB", "more than 200 GB", temporary=True),
        Case("blacklisted_storage_endpoints_are_skipped", "write_storage", "data",
             lambda flag: Part(storage={"blacklisted_write": flag}), True, False,
             "output storage works no", "must be yes", temporary=True),
        # 9 HS06 s x 345001 events / (1 core x 10 HS06 x 0.9) + 600 s = 345601 s
        Case("the_estimated_walltime_is_not_above_maxtime", "walltime_too_long", "configuration",
             lambda n_events: Part(needs={"cpu_time_hs06_s_per_event": 9.0}, request={"job": n_events}),
             345_001, 345_000, "walltime of a job 345601 s", "maxtime 345600 s"),
        # 9 HS06 s x 1 event / (1 core x 10 HS06 x 0.9) + 600 s = 601 s
        Case("the_estimated_walltime_is_not_below_mintime", "walltime_too_short", "configuration",
             lambda limit: Part(queue={"min_time_s": limit}, needs={"cpu_time_hs06_s_per_event": 9.0}), 345_602, 601,
             "walltime of a job 601 s", "mintime 345602 s"),
        Case("network_connectivity_of_wnconnectivity_is_enough", "connectivity", "configuration",
             lambda word: Part(queue={"connectivity": word}, needs={"connectivity": "http"}), "none", "http",
             "network of the queue none", "network needed http"),
        Case("ip_stack_of_wnconnectivity_is_the_one_that_is_asked_for", "ip_stack", "configuration",
             lambda stack: Part(queue={"ip_stack": stack}, needs={"ip_stack": "IPv6"}), "IPv4", "IPv6",
             "IP stack of the queue IPv4", "needed IPv6"),
        Case("queues_without_pilots_for_the_last_3_hours_are_skipped", "pilots", "capacity",
             lambda seconds: Part(activity={"last_pilot_at": long_ago(3, seconds), "known_since": LONG_AGO}), 1, 0,
             "time since a pilot asked 10801 s", "at most 10800 s", temporary=True),
    )
}  # fmt: skip
