"""Every rule of production once more in plain Python, for one queue at a time, written from the document.

One function for each filter, in the order of the document, and the weight. The columns must decide the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.brokerage.load import Activity
from shared.brokerage.request import JobRequest
from shared.model.link import Link
from shared.model.queue import Queue
from shared.model.storage import Storage
from tests.unit.brokerage.worlds import NOW

MB, GB = 1024**2, 1024**3
NUCLEUS = "S0"


@dataclass(frozen=True)
class One:
    """One queue with everything that is known about it, and about the world as far as its rules ask."""

    queue: Queue
    request: JobRequest
    storage: Storage
    link: Link
    bare_nucleus: str
    jobs: dict[str, int]
    activity: Activity
    queued_everywhere: int
    any_pilot_ever: bool
    observing_since: Any

    @property
    def cores(self) -> int:
        if self.request.is_merge and self.request.needs.core_count:
            return self.request.needs.core_count
        return self.queue.core_count if self.queue.core_count > 0 else max(1, self.request.needs.core_count)

    @property
    def cores_of_slot(self) -> int:
        return self.cores if self.queue.core_count == -1 else max(1, self.queue.core_count)

    @property
    def at_nucleus(self) -> bool:
        return self.queue.site == NUCLEUS

    @property
    def local(self) -> tuple[int, int, int, int]:
        """Files and bytes wanted; files and bytes at hand on disk."""
        return self.copies(with_tape=False)

    def copies(self, *, with_tape: bool) -> tuple[int, int, int, int]:
        if not self.request.inputs:
            return 0, 0, 0, 0
        (dataset,) = self.request.inputs
        counted = [one for one in dataset.replicas if with_tape or not one.is_tape]
        at_hand = {one.storage: (one.n_files, one.n_bytes) for one in counted}
        return (dataset.n_files, dataset.n_bytes, *at_hand.get(f"{self.queue.site}_DATADISK", (0, 0)))

    @property
    def running(self) -> int:
        real, slots = self.jobs.get("running", 0), self.activity.n_slots
        workers = self.activity.running_workers + self.activity.submitted_workers
        bootstrap = min(workers, 20) if real < 20 and workers > real else 0
        by_slots = 0 if slots is None else slots or self.jobs.get("starting", 0)
        return max(real, bootstrap, by_slots)

    @property
    def queued(self) -> int:
        files, _, have, _ = self.local
        assigned = 0 if have >= files else self.jobs.get("assigned", 0)
        return sum(self.jobs.get(state, 0) for state in ("activated", "starting", "defined")) + assigned

    def silence_s(self, last: Any) -> float | None:
        last = last or self.observing_since
        return None if last is None else (NOW - last).total_seconds()

    @property
    def network(self) -> float:
        if self.at_nucleus:
            return 2.5
        near = 7.7 if self.link.closeness is None else self.link.closeness
        queued = self.link.queued_express if self.request.is_urgent else self.link.queued_output
        return 0.5 * (min(2.0, max(1.0, 2 - (queued or 0) / 300)) + 1 + (11 - near) / 11)


def core_count(one: One) -> bool:
    wanted = one.request.needs.core_count
    several = one.queue.core_count > 1 or one.queue.core_count == -1
    if wanted == 0:
        return several or one.request.is_merge or not (one.request.priority >= 900 or one.request.is_scout)
    return several if wanted > 1 else one.queue.core_count <= 1


def ram_mb(one: One) -> int:
    n = one.request.needs
    total = n.base_ram_mb + (n.ram_mb * one.cores if n.ram_per_core else n.ram_mb)
    return math.floor((max(2000, total) if one.request.is_merge else total) * 0.9)


def rss_mb(one: One, stated_mb: int) -> int:
    return stated_mb * (one.cores_of_slot if one.queue.options.get("per_core_attr") == "true" else 1)


def scratch_disk(one: One) -> bool:
    n, job = one.request.needs, one.request.job
    direct = one.queue.direct_access_lan and not one.request.copies_to_scratch
    output = n.output_bytes_per_event * job.n_events + n.output_bytes_per_input_mb * job.input_bytes / MB
    needed = ((0 if direct else job.input_bytes) + max(GB / 2, output) + n.work_dir_bytes) / MB
    return one.queue.max_work_dir_mb == 0 or needed < one.queue.max_work_dir_mb


def walltime_s(one: One) -> float | None:
    """None where the walltime is not judged: merge jobs, and work of unknown length."""
    n = one.request.needs
    if one.request.is_merge:
        return None
    if not n.cpu_efficiency:
        return n.base_walltime_s
    if n.cpu_time_hs06_s_per_event is None:
        return None
    power = one.queue.core_power_hs06 or 10.0
    events = max(1, one.request.job.n_events)
    return n.base_walltime_s + n.cpu_time_hs06_s_per_event * events / (one.cores * power * n.cpu_efficiency)


def a_day(one: One) -> bool:
    unknown = one.request.needs.cpu_time_hs06_s_per_event is None and one.request.needs.cpu_efficiency > 0
    if not (one.request.is_scout or one.request.is_merge or unknown):
        return True
    return one.queue.max_time_s == 0 or one.queue.max_time_s >= 86_400


def zero_share(one: One) -> bool:
    request = one.request
    if request.processing_type == "validation":
        return True
    return {
        "": True,
        "type=evgen:100%,type=any:0%": request.processing_type == "evgen",
        "priority>=900:0": request.is_merge or request.priority < 900,
        "group=AP_*:0": not request.working_group.startswith("AP_"),
    }[one.queue.fair_share_policy]


def event_service(one: One) -> bool:
    high = one.request.priority >= 800 or one.request.is_scout
    fitting = {"es", "all", *(("eshigh",) if high else ())} if one.request.is_event_service else {"std", "all"}
    return one.queue.jobseed in fitting


def active(one: One) -> bool:
    request = one.request
    if not (request.priority >= 800 or request.is_scout or request.is_merge or request.is_pre_merged):
        return True
    silence = one.silence_s(one.activity.last_job_start_at)
    return not (silence is not None and silence > 7200 and one.jobs.get("activated", 0) > 0)


def has_pilots(one: One) -> bool:
    silence = one.silence_s(one.activity.last_pilot_at)
    allowed = one.queue.options.get("allow_no_pilot") == "true"
    return allowed or not one.any_pilot_ever or (silence is not None and silence <= 3 * 3600)


def disk_io(one: One) -> bool:
    mean, limit = one.activity.mean_disk_io_kb_s_per_core, one.queue.max_disk_io_kb_s or 1e10
    return not (one.request.needs.disk_io_kb_s / max(1, one.queue.core_count) > limit and (mean or 0) > limit)


def moves_much(one: One) -> bool:
    return one.request.needs.io_intensity_kb_s > 200 and bool(one.request.inputs)


def little_to_move(one: One, copies: tuple[int, int, int, int]) -> bool:
    return not moves_much(one) or copies[1] - copies[3] < 10 * GB


def few_to_move(one: One, copies: tuple[int, int, int, int]) -> bool:
    return not moves_much(one) or copies[0] - copies[2] < 100


def connectivity(one: One) -> bool:
    order = ["full", "http", "none"]
    wanted = one.request.needs.connectivity
    return not wanted or order.index(one.queue.connectivity) <= order.index(wanted)


def at_nucleus_if(condition: Callable[[One], bool]) -> Callable[[One], bool]:
    return lambda one: one.at_nucleus or not condition(one)


# In the order of the document.
RULES: dict[str, Callable[[One], bool]] = {
    "preassigned": lambda one: not one.request.preassigned or one.queue.name in one.request.preassigned,
    "excluded_sites": lambda one: one.queue.name not in one.request.excluded,
    "test_queue": lambda one: bool(one.request.preassigned) or "test" not in one.queue.name.lower(),
    "queue_type": lambda one: one.queue.type in ("production", "unified"),
    "status": lambda one: (
        bool(one.request.preassigned) or one.queue.status == "online"
        or (one.queue.status == "standby" and (one.activity.n_slots or 0) > 0)
    ),
    "blocked_link": lambda one: one.at_nucleus or one.link.closeness != -1,
    "link_backlog": lambda one: (
        one.at_nucleus or ((one.link.queued_express if one.request.is_urgent else one.link.queued_output) or 0) <= 300
    ),
    "nucleus_backlog": lambda one: one.queued_everywhere <= 10_000,
    "nucleus_only": at_nucleus_if(
        lambda one: not one.request.is_merge and (one.request.priority >= 800 or one.request.is_scout)
    ),
    "inactive": active,
    "zero_share": zero_share,
    "jumbo": lambda one: one.request.uses_jumbo or "useJumboJobs" not in one.queue.options,
    "missing_input_size": lambda one: little_to_move(one, one.local),
    "missing_input_files": lambda one: few_to_move(one, one.local),
    "disk_io": disk_io,
    "core_count": core_count,
    "max_core_count": lambda one: (
        not one.request.needs.max_core_count or one.queue.core_count <= one.request.needs.max_core_count
    ),
    "release": lambda one: not one.request.software.release or one.queue.releases != ("AUTO",),
    "memory_too_large": lambda one: (
        one.queue.max_rss_mb == 0 or ram_mb(one) <= rss_mb(one, one.queue.max_rss_mb)
    ),
    "memory_too_small": lambda one: ram_mb(one) >= rss_mb(one, one.queue.min_rss_mb),
    "direct_access": lambda one: one.queue.direct_access_lan or not one.request.direct_access_only,
    "scratch_disk": scratch_disk,
    "free_space": lambda one: one.storage.space_usable_gb > 200,
    "write_storage": lambda one: one.storage.works("write_lan"),
    "input_storage": lambda one: (
        not (one.request.inputs or one.request.is_merge) or one.storage.works("read_lan")
    ),
    "walltime_of_a_day": a_day,
    "walltime_too_long": lambda one: one.queue.max_time_s == 0 or (walltime_s(one) or 0) <= one.queue.max_time_s,
    "walltime_too_short": lambda one: (time := walltime_s(one)) is None or time >= one.queue.min_time_s,
    "connectivity": connectivity,
    "ip_stack": lambda one: not one.request.needs.ip_stack or one.queue.ip_stack == one.request.needs.ip_stack,
    "event_service": event_service,
    "dynamic_number_of_events": lambda one: (
        not one.request.dynamic_number_of_events or one.queue.min_time_s > 0
    ),
    "transferring": lambda one: (
        one.jobs.get("transferring", 0) <= max(one.queue.transferring_limit or 2000, 2 * one.jobs.get("running", 0))
    ),
    "t1_weight": at_nucleus_if(
        lambda one: one.request.t1_weight == -1 and not one.request.is_merge and not one.request.is_scout
    ),
    "full_chain": at_nucleus_if(lambda one: bool(one.request.full_chain) and bool(one.bare_nucleus)),
    "pilots": has_pilots,
    "network_weight": lambda one: not one.request.is_urgent or one.request.is_merge or one.network >= 1.7,
    "activated_and_starting": lambda one: (
        one.jobs.get("activated", 0) + one.jobs.get("starting", 0) <= max(20, 2 * one.running)
    ),
    "queued": lambda one: one.queued <= max(20, 2 * one.running),
}  # fmt: skip


WITH_TAPE: dict[str, Callable[[One], bool]] = {
    "missing_input_size": lambda one: little_to_move(one, one.copies(with_tape=True)),
    "missing_input_files": lambda one: few_to_move(one, one.copies(with_tape=True)),
}


def weight_of(one: One) -> float:
    """The weight of one queue, term by term."""
    files, size, have_files, have_size = one.local
    local = have_files >= files
    assigned, activated = one.jobs.get("assigned", 0), one.jobs.get("activated", 0)
    many_assigned = 1.0 if local else max(1.0, min(2.0, (assigned + 1) / (activated + 1)))
    weight = (one.running + 1) / ((one.queued + 10) * many_assigned)
    if files:
        weight *= (have_size + size) / (size * ((files - have_files) / 100 + 1))
    t1_weight = max(0, one.request.t1_weight)
    if one.request.t1_weight == 0 and one.request.needs.io_intensity_kb_s >= 500:
        t1_weight = 4
    if one.request.priority >= 900 and not one.request.is_merge:
        t1_weight = max(t1_weight, 100)
    return weight * one.network * (max(1, t1_weight) if one.at_nucleus else 1)
