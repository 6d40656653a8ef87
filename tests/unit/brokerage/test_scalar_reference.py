"""The columns against one queue at a time: every rule of production written once more in plain Python, equal for any

world. One function for each filter, in the order of the document; numbers that are compared are checked too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_brokerage.policy.production import CAPS, PIPELINE, ProductionJobBrokerage
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, JobRequest, Replica, SmallestJob
from shared.brokerage.software import SoftwareNeeds
from shared.model.link import Link
from shared.model.needs import WorkNeeds
from shared.model.queue import Queue, QueueStatus, QueueType
from shared.model.site import Site
from shared.model.storage import Storage
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

MB, GB = 1024**2, 1024**3
NUCLEUS = "S0"
SITES = ("S0", "S1", "S2")
STATES = ("running", "activated", "assigned", "starting", "defined", "transferring")

queues = st.builds(
    lambda number, site, **values: a_queue(f"Q{number}{'_TEST' if number == 9 else ''}", site, **values),
    st.integers(0, 9),
    st.sampled_from(SITES),
    status=st.sampled_from(QueueStatus),
    type=st.sampled_from(QueueType),
    core_count=st.sampled_from([-1, 0, 1, 8, 16]),
    core_power_hs06=st.sampled_from([0.0, 8.5, 12.0]),
    min_time_s=st.sampled_from([0, 3600]),
    max_time_s=st.sampled_from([0, 50_000, 90_000, 345_600]),
    min_rss_mb=st.sampled_from([0, 2001]),
    max_rss_mb=st.sampled_from([0, 2000, 16_000]),
    max_work_dir_mb=st.sampled_from([0, 1500, 20_000]),
    direct_access_lan=st.booleans(),
    connectivity=st.sampled_from(["full", "http", "none"]),
    ip_stack=st.sampled_from(["", "IPv4", "IPv6"]),
    transferring_limit=st.sampled_from([0, 50]),
    fair_share_policy=st.sampled_from(["", "type=evgen:100%,type=any:0%", "priority>=900:0", "group=AP_*:0"]),
    releases=st.sampled_from([("ANY",), ("21.0.38",), ("AUTO",)]),
    max_disk_io_kb_s=st.sampled_from([0, 300]),
    jobseed=st.sampled_from(["std", "std", "es", "eshigh", "all"]),
    options=st.sampled_from([{}, {"allow_no_pilot": "true"}, {"per_core_attr": "true"}]),
)
needs = st.builds(
    WorkNeeds,
    core_count=st.sampled_from([0, 1, 8]),
    max_core_count=st.sampled_from([None, 8]),
    ram_mb=st.integers(0, 4000),
    ram_per_core=st.booleans(),
    base_ram_mb=st.sampled_from([0, 1000]),
    output_bytes_per_event=st.sampled_from([0.0, 2.0 * MB]),
    output_bytes_per_input_mb=st.sampled_from([0.0, MB / 2]),
    work_dir_bytes=st.sampled_from([0, 500 * MB]),
    cpu_time_hs06_s_per_event=st.sampled_from([None, 1.0, 900.0]),
    cpu_efficiency=st.sampled_from([0.0, 0.9]),
    connectivity=st.sampled_from(["", "full", "http", "none"]),
    ip_stack=st.sampled_from(["", "IPv4"]),
    io_intensity_kb_s=st.sampled_from([0.0, 300.0, 600.0]),
    disk_io_kb_s=st.sampled_from([0.0, 250.0, 4000.0]),
)
requests = st.builds(
    lambda **values: a_request(nucleus=NUCLEUS, **values),
    needs=needs,
    priority=st.sampled_from([100, 850, 950, 1000]),
    processing_type=st.sampled_from(["simul", "evgen", "urgent", "validation"]),
    working_group=st.sampled_from(["", "AP_Higgs"]),
    t1_weight=st.sampled_from([0, 0, -1, 5]),
    full_chain=st.sampled_from(["", "capable"]),
    software=st.sampled_from([SoftwareNeeds(), SoftwareNeeds(project="Athena", release="21.0.38")]),
    direct_access_only=st.booleans(),
    is_pre_merged=st.booleans(),
    is_event_service=st.booleans(),
    dynamic_number_of_events=st.booleans(),
    is_scout=st.booleans(),
    is_merge=st.booleans(),
    preassigned=st.sampled_from([(), ("Q1", "Q2")]),
    excluded=st.sampled_from([(), ("Q3",)]),
    copies_to_scratch=st.booleans(),
    job=st.builds(SmallestJob, st.just(1), st.integers(0, 5000), st.sampled_from([0, 3000 * MB])),
    inputs=st.sampled_from([
        (),
        (InputDataset("d", 100, 9 * GB, (Replica("S1_DATADISK", 60, 5 * GB), Replica("S0_DATADISK", 100, 9 * GB))),),
        (InputDataset("d", 300, 90 * GB, (Replica("S1_DATADISK", 210, 85 * GB),)),),
    ]),
)  # fmt: skip
job_counts = st.lists(
    st.builds(
        JobCount, st.sampled_from([f"Q{n}" for n in range(10)]), st.just(""), st.sampled_from(STATES),
        st.integers(0, 3000),
    ),
    max_size=12,
)  # fmt: skip


activities = st.lists(
    st.builds(
        Activity,
        st.sampled_from([f"Q{n}" for n in range(10)]),
        last_pilot_at=st.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(hours=4)]),
        last_job_start_at=st.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(hours=3)]),
        running_workers=st.sampled_from([0, 12, 400]),
        n_slots=st.sampled_from([None, None, 0, 100]),
        mean_disk_io_kb_s_per_core=st.sampled_from([None, 100.0, 500.0]),
        known_since=st.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(days=1)]),
    ),
    max_size=8,
    unique_by=lambda activity: activity.queue,
)


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
        return self.queue.core_count if self.queue.core_count > 0 else max(1, self.request.needs.core_count)

    @property
    def at_nucleus(self) -> bool:
        return self.queue.site == NUCLEUS

    @property
    def local(self) -> tuple[int, int, int, int]:
        """Files and bytes wanted; files and bytes at hand."""
        if not self.request.inputs:
            return 0, 0, 0, 0
        (dataset,) = self.request.inputs
        at_hand = {one.storage: (one.n_files, one.n_bytes) for one in dataset.replicas}
        return (dataset.n_files, dataset.n_bytes, *at_hand.get(f"{self.queue.site}_DATADISK", (0, 0)))

    @property
    def running(self) -> int:
        real, workers, slots = self.jobs.get("running", 0), self.activity.running_workers, self.activity.n_slots
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
    wanted = one.request.needs.core_count or (1 if one.request.is_merge else 0)
    several = one.queue.core_count > 1 or one.queue.core_count == -1
    if wanted == 0:
        return several or not (one.request.priority >= 900 or one.request.is_scout)
    return several if wanted > 1 else one.queue.core_count <= 1


def ram_mb(one: One) -> int:
    n = one.request.needs
    total = n.base_ram_mb + (n.ram_mb * one.cores if n.ram_per_core else n.ram_mb)
    return math.floor((max(2000, total) if one.request.is_merge else total) * 0.9)


def max_rss_mb(one: One) -> int:
    per_core = one.queue.options.get("per_core_attr") == "true"
    return one.queue.max_rss_mb * (max(1, one.queue.core_count) if per_core else 1)


def scratch_disk(one: One) -> bool:
    n, job = one.request.needs, one.request.job
    direct = one.queue.direct_access_lan and not one.request.copies_to_scratch
    output = n.output_bytes_per_event * job.n_events + n.output_bytes_per_input_mb * job.input_bytes / MB
    needed = ((0 if direct else job.input_bytes) + max(GB / 2, output) + n.work_dir_bytes) / MB
    return one.queue.max_work_dir_mb == 0 or needed <= one.queue.max_work_dir_mb


def walltime_s(one: One) -> float | None:
    """None where the walltime is not judged: merge jobs, and work of unknown length."""
    n = one.request.needs
    if one.request.is_merge or n.cpu_time_hs06_s_per_event is None:
        return None
    if not n.cpu_efficiency:
        return n.base_walltime_s
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
    "missing_input_size": lambda one: not moves_much(one) or one.local[1] - one.local[3] < 10 * GB,
    "missing_input_files": lambda one: not moves_much(one) or one.local[0] - one.local[2] < 100,
    "disk_io": disk_io,
    "core_count": core_count,
    "max_core_count": lambda one: (
        not one.request.needs.max_core_count or one.queue.core_count <= one.request.needs.max_core_count
    ),
    "release": lambda one: not one.request.software.release or one.queue.releases != ("AUTO",),
    "memory_too_large": lambda one: max_rss_mb(one) == 0 or ram_mb(one) <= max_rss_mb(one),
    "memory_too_small": lambda one: ram_mb(one) >= one.queue.min_rss_mb,
    "direct_access": lambda one: one.queue.direct_access_lan or not one.request.direct_access_only,
    "scratch_disk": scratch_disk,
    "free_space": lambda one: one.storage.space_usable_gb > 200,
    "write_storage": lambda one: one.storage.works("write_lan"),
    "walltime_of_a_day": a_day,
    "walltime_too_long": lambda one: one.queue.max_time_s == 0 or (walltime_s(one) or 0) <= one.queue.max_time_s,
    "walltime_too_short": lambda one: (time := walltime_s(one)) is None or time >= one.queue.min_time_s,
    "connectivity": connectivity,
    "ip_stack": lambda one: not one.request.needs.ip_stack or one.queue.ip_stack == one.request.needs.ip_stack,
    "event_service": event_service,
    "dynamic_number_of_events": lambda one: (
        not one.request.dynamic_number_of_events or one.queue.jobseed != "std"
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


def test_the_reference_has_every_check_of_the_pipeline_in_its_order() -> None:
    names = [one.check.name for one in (*PIPELINE.filters, *CAPS.filters)]
    elsewhere = {"included_sites", "cpu_hardware", "gpu_hardware", "container", "output_storage"}
    assert [name for name in names if name not in elsewhere] == list(RULES)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(queues, min_size=1, max_size=8, unique_by=lambda queue: queue.name), requests, job_counts, activities,
    st.sampled_from([None, -1, 0, 5, 11]), st.sampled_from([0, 150, 301, 9000]), st.sampled_from(["", "allow"]),
    st.sampled_from([100.0, 51_200.0]), st.sampled_from(["ON", "OFF"]),
)  # fmt: skip
def test_columns_decide_as_one_queue_at_a_time(
    found, request, counts, signs, closeness, queued, bare, free_gb, status
) -> None:
    storage = a_storage("S2_DATADISK", "S2", space_free_gb=free_gb, detailed_status={"write_lan": status})
    links = {
        site: Link(site, NUCLEUS, closeness=closeness, queued_output=queued, queued_express=queued // 3, queued_at=NOW)
        for site in SITES
    }
    nucleus = Site(NUCLEUS, "ACTIVE", is_nucleus=True, bare_nucleus=bare)
    world = a_world(found, storages=[storage], sites=[nucleus], links=links.values(), jobs=counts, activities=signs)
    jobs: dict[str, dict[str, Any]] = {}
    for count in counts:
        states = jobs.setdefault(count.queue, {})
        states[count.status] = states.get(count.status, 0) + count.n_jobs
    known = {one.queue: one for one in signs if one.queue in {queue.name for queue in found}}
    since = [one.known_since for one in known.values() if one.known_since]
    decision = ProductionJobBrokerage().decide(world, request, seed=1)
    verdicts = {one.check.name: one.decide(world, request) for one in (*PIPELINE.filters, *CAPS.filters)}
    for queue in found:
        one = One(
            queue, request, world.grid.storages[f"{queue.site}_DATADISK"], links[queue.site], bare,
            jobs.get(queue.name, {}), known.get(queue.name, Activity(queue.name)), 3 * queued,
            any(sign.last_pilot_at for sign in known.values()), min(since, default=None),
        )  # fmt: skip
        expected = next((name for name, passes in RULES.items() if not passes(one)), None)
        place = decision.names.index(queue.name)
        for name, passes in RULES.items():
            verdict = verdicts[name]
            assert (verdict is None or bool(verdict.passes[place])) == passes(one), name
        why = decision.exclusion(queue.name)
        assert (why[0].name if why else None) == expected
        if expected is None:
            assert decision.weights[place] == pytest.approx(weight_of(one))
    assert decision.decided_at == NOW
