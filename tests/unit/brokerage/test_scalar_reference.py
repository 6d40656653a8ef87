"""The columns against one queue at a time: each filter and the weight are those of the plain reference in any world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.job_brokerage.policy.production import CAPS, PIPELINE, ProductionJobBrokerage
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, Replica, SmallestJob
from shared.brokerage.software import SoftwareNeeds
from shared.model.link import Link
from shared.model.needs import WorkNeeds
from shared.model.queue import QueueStatus, QueueType
from shared.model.site import Site
from tests.unit.brokerage.scalar_queue import GB, MB, NUCLEUS, RULES, WITH_TAPE, One, weight_of
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

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
    options=st.sampled_from([{}, {"allow_no_pilot": "true"}, {"per_core_attr": "true"}, {"useJumboJobs": "true"}]),
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
    uses_jumbo=st.booleans(),
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
        (InputDataset("d", 300, 90 * GB, (Replica("S2_DATADISK", 300, 90 * GB, is_tape=True),)),),
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
        submitted_workers=st.sampled_from([0, 7]),
        n_slots=st.sampled_from([None, None, 0, 100]),
        mean_disk_io_kb_s_per_core=st.sampled_from([None, 100.0, 500.0]),
        known_since=st.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(days=1)]),
    ),
    max_size=8,
    unique_by=lambda activity: activity.queue,
)


def test_the_reference_has_every_check_of_the_pipeline_in_its_order() -> None:
    names = [one.check.name for one in (*PIPELINE.filters, *CAPS.filters)]
    elsewhere = {"included_sites", "cpu_hardware", "gpu_hardware", "container", "output_storage"}
    assert [name for name in names if name not in elsewhere] == list(RULES)


TEMPORARY = {one.check.name for one in (*PIPELINE.filters, *CAPS.filters) if one.check.temporary}


def rules_with_cutoff(ones: Iterable[One]) -> dict[str, Callable[[One], bool]]:
    """Without the IO cutoff if no queue that passes every other persistent rule passes it, also with tape."""
    for replaced in ({}, WITH_TAPE):
        rules = {**RULES, **replaced}
        persistent = [passes for name, passes in rules.items() if name not in TEMPORARY]
        if any(all(passes(one) for passes in persistent) for one in ones):
            return rules
    without = {name: passes for name, passes in RULES.items() if name not in WITH_TAPE}
    could = any(all(passes(one) for name, passes in without.items() if name not in TEMPORARY) for one in ones)
    return without if could else RULES


@settings(max_examples=400, deadline=None)
@given(
    st.lists(queues, min_size=1, max_size=8, unique_by=lambda queue: queue.name), requests, job_counts, activities,
    st.sampled_from([None, -1, 0, 5, 11]), st.sampled_from([0, 150, 301, 9000]), st.sampled_from(["", "allow"]),
    st.sampled_from([100.0, 51_200.0]), st.sampled_from(["ON", "OFF"]), st.sampled_from(["ON", "ON", "TEST"]),
)  # fmt: skip
def test_columns_decide_as_one_queue_at_a_time(
    found, request, counts, signs, closeness, queued, bare, free_gb, status, read_status
) -> None:
    detailed_status = {"write_lan": status, "read_lan": read_status}
    storage = a_storage("S2_DATADISK", "S2", space_free_gb=free_gb, detailed_status=detailed_status)
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
    ones = {}
    for queue in found:
        ones[queue.name] = One(
            queue, request, world.grid.storages[f"{queue.site}_DATADISK"], links[queue.site], bare,
            jobs.get(queue.name, {}), known.get(queue.name, Activity(queue.name)), 3 * queued,
            any(sign.last_pilot_at for sign in known.values()), min(since, default=None),
        )  # fmt: skip
    rules = rules_with_cutoff(ones.values())
    for queue in found:
        one = ones[queue.name]
        expected = next((name for name, passes in rules.items() if not passes(one)), None)
        place = decision.names.index(queue.name)
        for name, passes in RULES.items():
            verdict = verdicts[name]
            assert (verdict is None or bool(verdict.passes[place])) == passes(one), name
        why = decision.exclusion(queue.name)
        assert (why[0].name if why else None) == expected
        if expected is None:
            assert decision.weights[place] == pytest.approx(weight_of(one))
    assert decision.decided_at == NOW
