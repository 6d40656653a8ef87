"""The columns against one queue at a time: each filter and the weight are those of the plain reference in any world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from services.job_brokerage.policy.production import CAPS, PIPELINE, ProductionJobBrokerage
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, InputReplica, SmallestJob
from shared.brokerage.software import SoftwareNeeds
from shared.model.link import Link
from shared.model.queue import QueueStatus, QueueType
from shared.model.site import Site
from shared.task.needs import WorkNeeds
from tests.unit.brokerage import draw
from tests.unit.brokerage.scalar_queue import GB, MB, NUCLEUS, RULES, WITH_TAPE, One, weight_of
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_storage, a_world

SITES = ("S0", "S1", "S2")
STATES = ("running", "activated", "assigned", "starting", "defined", "transferring")

queues = draw.builds(
    lambda number, site, **values: a_queue(f"Q{number}{'_TEST' if number == 9 else ''}", site, **values),
    draw.integers(0, 9),
    draw.sampled_from(SITES),
    status=draw.sampled_from(QueueStatus),
    type=draw.sampled_from(QueueType),
    core_count=draw.sampled_from([-1, 0, 1, 8, 16]),
    core_power_hs06=draw.sampled_from([0.0, 8.5, 12.0]),
    min_time_s=draw.sampled_from([0, 3600]),
    max_time_s=draw.sampled_from([0, 50_000, 90_000, 345_600]),
    min_rss_mb=draw.sampled_from([0, 2001]),
    max_rss_mb=draw.sampled_from([0, 2000, 16_000]),
    max_work_dir_mb=draw.sampled_from([0, 1500, 20_000]),
    direct_access_lan=draw.booleans(),
    connectivity=draw.sampled_from(["full", "http", "none"]),
    ip_stack=draw.sampled_from(["", "IPv4", "IPv6"]),
    transferring_limit=draw.sampled_from([0, 50]),
    fair_share_policy=draw.sampled_from(["", "type=evgen:100%,type=any:0%", "priority>=900:0", "group=AP_*:0"]),
    releases=draw.sampled_from([("ANY",), ("21.0.38",), ("AUTO",)]),
    max_disk_io_kb_s=draw.sampled_from([0, 300]),
    jobseed=draw.sampled_from(["std", "std", "es", "eshigh", "all"]),
    options=draw.sampled_from([{}, {"allow_no_pilot": "true"}, {"per_core_attr": "true"}, {"useJumboJobs": "true"}]),
)
needs = draw.builds(
    WorkNeeds,
    core_count=draw.sampled_from([0, 1, 8]),
    max_core_count=draw.sampled_from([None, 8]),
    ram_mb=draw.integers(0, 4000),
    ram_per_core=draw.booleans(),
    base_ram_mb=draw.sampled_from([0, 1000]),
    output_bytes_per_event=draw.sampled_from([0.0, 2.0 * MB]),
    output_bytes_per_input_mb=draw.sampled_from([0.0, MB / 2]),
    work_dir_bytes=draw.sampled_from([0, 500 * MB]),
    cpu_time_hs06_s_per_event=draw.sampled_from([None, 1.0, 900.0]),
    cpu_efficiency=draw.sampled_from([0.0, 0.9]),
    connectivity=draw.sampled_from(["", "full", "http", "none"]),
    ip_stack=draw.sampled_from(["", "IPv4"]),
    io_intensity_kb_s=draw.sampled_from([0.0, 300.0, 600.0]),
    disk_io_kb_s=draw.sampled_from([0.0, 250.0, 4000.0]),
)
requests = draw.builds(
    lambda **values: a_request(nucleus=NUCLEUS, **values),
    needs=needs,
    priority=draw.sampled_from([100, 850, 950, 1000]),
    processing_type=draw.sampled_from(["simul", "evgen", "urgent", "validation"]),
    working_group=draw.sampled_from(["", "AP_Higgs"]),
    t1_weight=draw.sampled_from([0, 0, -1, 5]),
    full_chain=draw.sampled_from(["", "capable"]),
    software=draw.sampled_from([SoftwareNeeds(), SoftwareNeeds(project="Athena", release="21.0.38")]),
    direct_access_only=draw.booleans(),
    is_pre_merged=draw.booleans(),
    is_event_service=draw.booleans(),
    uses_jumbo=draw.booleans(),
    dynamic_number_of_events=draw.booleans(),
    is_scout=draw.booleans(),
    is_merge=draw.booleans(),
    preassigned=draw.sampled_from([(), ("Q1", "Q2")]),
    excluded=draw.sampled_from([(), ("Q3",)]),
    copies_to_scratch=draw.booleans(),
    job=draw.builds(SmallestJob, draw.just(1), draw.integers(0, 5000), draw.sampled_from([0, 3000 * MB])),
    inputs=draw.sampled_from([
        (),
        (InputDataset("d", 100, 9 * GB,
                      (InputReplica("S1_DATADISK", 60, 5 * GB), InputReplica("S0_DATADISK", 100, 9 * GB))),),
        (InputDataset("d", 300, 90 * GB, (InputReplica("S1_DATADISK", 210, 85 * GB),)),),
        (InputDataset("d", 300, 90 * GB, (InputReplica("S2_DATADISK", 300, 90 * GB, is_tape=True),)),),
    ]),
)  # fmt: skip
job_counts = draw.lists(
    draw.builds(
        JobCount,
        draw.sampled_from([f"Q{n}" for n in range(10)]),
        draw.just(""),
        draw.sampled_from(STATES),
        draw.integers(0, 3000),
    ),
    max_size=12,
)


activities = draw.lists(
    draw.builds(
        Activity,
        draw.sampled_from([f"Q{n}" for n in range(10)]),
        last_pilot_at=draw.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(hours=4)]),
        last_job_start_at=draw.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(hours=3)]),
        running_workers=draw.sampled_from([0, 12, 400]),
        submitted_workers=draw.sampled_from([0, 7]),
        n_slots=draw.sampled_from([None, None, 0, 100]),
        mean_disk_io_kb_s_per_core=draw.sampled_from([None, 100.0, 500.0]),
        known_since=draw.sampled_from([None, NOW - timedelta(hours=1), NOW - timedelta(days=1)]),
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
    draw.from_one_number(
        draw.lists(queues, min_size=1, max_size=8, unique_by=lambda queue: queue.name),
        requests,
        job_counts,
        activities,
        draw.sampled_from([None, -1, 0, 5, 11]),
        draw.sampled_from([0, 150, 301, 9000]),
        draw.sampled_from(["", "allow"]),
        draw.sampled_from([100.0, 51_200.0]),
        draw.sampled_from(["ON", "OFF"]),
        draw.sampled_from(["ON", "ON", "TEST"]),
    )
)
def test_columns_decide_as_one_queue_at_a_time(drawn) -> None:
    found, request, counts, signs, closeness, queued, bare, free_gb, status, read_status = drawn
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
            queue,
            request,
            world.grid.storages[f"{queue.site}_DATADISK"],
            links[queue.site],
            bare,
            jobs.get(queue.name, {}),
            known.get(queue.name, Activity(queue.name)),
            3 * queued,
            any(sign.last_pilot_at for sign in known.values()),
            min(since, default=None),
        )
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
