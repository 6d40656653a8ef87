"""Production job brokerage, bullet by bullet of the document, in its order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.job_brokerage.policy.filters import capacity, data, nucleus
from services.job_brokerage.policy.production import CAPS, ProductionJobBrokerage
from services.job_brokerage.policy.request import job_request, jobs_of_chunk
from services.job_brokerage.policy.weights import nucleus_factor
from shared.brokerage.check import Filter
from shared.brokerage.filters import capability, rules, scope
from shared.brokerage.limits import JobLimits
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import InputDataset, InputReplica, SmallestJob
from shared.model.link import Link
from shared.model.site import Site
from shared.task.needs import needs_of_task
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_request, a_world

GB = 1024**3


def passed(one: Filter, world: Any, request: Any) -> set[str]:
    """Labels that one filter lets pass."""
    verdict = one.decide(world, request)
    labels = world.columns.labels
    return set(labels) if verdict is None else {label for label, ok in zip(labels, verdict.passes, strict=True) if ok}


def needing(**changes: Any) -> Any:
    return a_request(needs=replace(LIGHT, **changes))


def at(queue: str, **counts: int) -> list[JobCount]:
    return [JobCount(queue, "", status, number) for status, number in counts.items()]


def two(**changes: Any) -> Any:
    """Queue N at the nucleus NUC, queue S at the satellite SAT."""
    return a_world([a_queue("N", "NUC"), a_queue("S", "SAT")], **changes)


def test_unified_queues_are_resolved_to_pseudo_queues_when_pre_assigned() -> None:
    world = a_world([a_queue("U", capability="ucore", core_count=8, max_rss_mb=32_000), a_queue("V")])
    assert passed(scope.preassigned, world, a_request(preassigned=("U",))) == {
        "U/SCORE",
        "U/SCORE_HIMEM",
        "U/MCORE",
        "U/MCORE_HIMEM",
    }
    assert passed(scope.preassigned, world, a_request(preassigned=("U/SCORE",))) == {"U/SCORE"}


@pytest.mark.parametrize(("hours", "kept"), [(0, True), (23.9, True), (24, False), (50, False)])
def test_the_pre_assignment_of_merge_jobs_is_ignored_after_24_hours(hours, kept) -> None:
    row = {**ROW, "kind": "merge", "chunk_queue": "HERE", "merge_waiting_since": NOW - timedelta(hours=hours)}
    assert job_request(row, (), JobLimits(), NOW).preassigned == (("HERE",) if kept else ())


def test_queues_over_nqueued_sat_cap_are_skipped() -> None:
    def world(queued: int, hours: float = 0) -> Any:
        return two(
            links=[Link("SAT", "NUC", queued_output=queued, queued_express=0, queued_at=NOW - timedelta(hours=hours))]
        )

    request = a_request(nucleus="NUC")
    assert passed(capacity.link_is_not_saturated, world(300), request) == {"N", "S"}
    assert passed(capacity.link_is_not_saturated, world(301), request) == {"N"}
    assert passed(capacity.link_is_not_saturated, world(301, hours=2), request) == {"N", "S"}, "too old to be used"
    assert passed(capacity.link_is_not_saturated, world(301), replace(request, priority=1000)) == {"N", "S"}


def test_all_queues_are_skipped_over_nqueued_nuc_cap_for_jobs() -> None:
    def world(queued: int) -> Any:
        return two(links=[Link(site, "NUC", queued_output=queued, queued_at=NOW) for site in ("SAT", "FAR")])

    request = a_request(nucleus="NUC")
    assert passed(capacity.nucleus_is_not_saturated, world(5000), request) == {"N", "S"}
    assert passed(capacity.nucleus_is_not_saturated, world(5001), request) == set()


@pytest.mark.parametrize(
    ("changes", "satellites"),
    [({"priority": 799}, True), ({"priority": 800}, False), ({"is_scout": True}, False),
     ({"priority": 5000, "is_merge": True}, True)],
)  # fmt: skip
def test_priority_800_and_scouts_only_use_queues_of_the_nucleus(changes, satellites) -> None:
    request = a_request(nucleus="NUC", **changes)
    expected = {"N", "S"} if satellites else {"N"}
    assert passed(nucleus.nucleus_for_urgent_work_and_scouts, two(), request) == expected


def inactive_world(hours: float | None, activated: int = 5) -> Any:
    started = None if hours is None else NOW - timedelta(hours=hours)
    return a_world([a_queue("A")], jobs=at("A", activated=activated), activities=[Activity("A", None, started)])


@pytest.mark.parametrize(
    "changes", [{"priority": 800}, {"is_scout": True}, {"is_merge": True}, {"is_pre_merged": True}]
)
def test_inactive_queues_are_skipped_by_urgent_work_scouts_merging_and_pre_merged_jobs(changes) -> None:
    request = a_request(**changes)
    assert passed(capacity.active, inactive_world(2.1), request) == set()
    assert passed(capacity.active, inactive_world(1.9), request) == {"A"}
    assert passed(capacity.active, inactive_world(2.1, activated=0), request) == {"A"}, "no job had been there"
    assert passed(capacity.active, inactive_world(None), request) == {"A"}, "nothing is known"
    assert passed(capacity.active, inactive_world(9), a_request()) == {"A"}, "ordinary work waits"


def test_zero_share_is_asked_with_type_group_share_and_priority() -> None:
    world = a_world([a_queue("A", fair_share_policy="type=evgen:100%,gshare=Express:100,type=any:0%"), a_queue("B")])
    assert passed(rules.zero_share, world, a_request(processing_type="simul")) == {"B"}
    assert passed(rules.zero_share, world, a_request(processing_type="evgen")) == {"A", "B"}
    assert passed(rules.zero_share, world, a_request(processing_type="simul", gshare="Express")) == {"A", "B"}


@pytest.mark.parametrize(
    ("missing_gb", "missing_files", "by_size", "by_files"),
    [(9, 99, True, True), (10, 99, False, True), (9, 100, True, False)],
)
def test_io_intensive_tasks_may_move_little_input(missing_gb, missing_files, by_size, by_files) -> None:
    dataset = InputDataset(
        "d", 200, 50 * GB, (InputReplica("SITE_DATADISK", 200 - missing_files, (50 - missing_gb) * GB),)
    )
    world = a_world([a_queue("A")])
    heavy = replace(needing(io_intensity_kb_s=201.0), inputs=(dataset,))
    assert bool(passed(data.little_input_to_move, world, heavy)) is by_size
    assert bool(passed(data.few_files_to_move, world, heavy)) is by_files
    light = replace(needing(io_intensity_kb_s=200.0), inputs=(replace(dataset, replicas=()),))
    assert passed(data.little_input_to_move, world, light) == passed(data.few_files_to_move, world, light) == {"A"}


@pytest.mark.parametrize(
    ("mean", "task", "expected"),
    [(301, 301, False), (300, 301, True), (301, 300, True), (None, 900, True), (301, 0, True)],
)
def test_disk_io_of_running_jobs_above_max_disk_io_keeps_heavier_tasks_away(mean, task, expected) -> None:
    world = a_world([a_queue("A", max_disk_io_kb_s=300)], activities=[Activity("A", mean_disk_io_kb_s_per_core=mean)])
    assert bool(passed(capacity.disk_io, world, needing(disk_io_kb_s=float(task)))) is expected
    free = a_world([a_queue("A")], activities=[Activity("A", mean_disk_io_kb_s_per_core=mean)])
    assert passed(capacity.disk_io, free, needing(disk_io_kb_s=float(task))) == {"A"}, "MAX_DISKIO_DEFAULT is far off"


def test_a_queue_without_direct_access_is_skipped_by_tasks_that_only_read_directly() -> None:
    world = a_world([a_queue("A"), a_queue("B", direct_access_lan=True), a_queue("C", max_input_size_mb=-1)])
    assert passed(capability.direct_access, world, a_request()) == {"A", "B", "C"}
    assert passed(capability.direct_access, world, a_request(direct_access_only=True)) == {"B", "C"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, {"std", "all"}), ({"is_event_service": True}, {"es", "all"}),
     ({"is_event_service": True, "priority": 800}, {"es", "eshigh", "all"})],
)  # fmt: skip
def test_event_service_goes_to_queues_whose_jobseed_takes_it(changes, expected) -> None:
    world = a_world([a_queue(seed, jobseed=seed) for seed in ("std", "es", "eshigh", "all")])
    assert passed(capability.event_service, world, a_request(**changes)) == expected


def test_a_dynamic_number_of_events_needs_queues_with_a_mintime() -> None:
    world = a_world([a_queue("ANY"), a_queue("LONG", min_time_s=3600)])
    assert passed(capability.dynamic_number_of_events, world, a_request()) == {"ANY", "LONG"}
    assert passed(capability.dynamic_number_of_events, world, a_request(dynamic_number_of_events=True)) == {"LONG"}


def test_t1_weight_minus_one_sends_all_normal_jobs_to_the_nucleus() -> None:
    request = a_request(nucleus="NUC", t1_weight=-1)
    assert passed(nucleus.nucleus_for_t1_weight, two(), request) == {"N"}
    assert passed(nucleus.nucleus_for_t1_weight, two(), replace(request, is_merge=True)) == {"N", "S"}
    assert passed(nucleus.nucleus_for_t1_weight, two(), replace(request, t1_weight=0)) == {"N", "S"}


@pytest.mark.parametrize(
    ("t1_weight", "io_intensity", "priority", "expected"),
    [(0, 0, 100, 1), (0, 499, 100, 1), (0, 500, 100, 4), (7, 0, 100, 7), (7, 900, 100, 7), (7, 0, 900, 100),
     (300, 0, 900, 300), (0, 500, 900, 100), (0, 0, 899, 1)],
)  # fmt: skip
def test_t1_weight_in_full(t1_weight, io_intensity, priority, expected) -> None:
    request = replace(
        needing(io_intensity_kb_s=float(io_intensity)), nucleus="NUC", t1_weight=t1_weight, priority=priority
    )
    assert nucleus_factor(two(), request).tolist() == [expected, 1]


@pytest.mark.parametrize(
    ("full_chain", "bare", "satellites"),
    [("only", "only", False), ("require", "allow", False), ("capable", "allow", False), ("capable", "", True),
     ("", "allow", True)],
)  # fmt: skip
def test_full_chain_at_a_bare_nucleus_stays_with_its_queues(full_chain, bare, satellites) -> None:
    world = two(sites=[Site("NUC", "ACTIVE", is_nucleus=True, bare_nucleus=bare)])
    found = passed(nucleus.nucleus_for_full_chain, world, a_request(nucleus="NUC", full_chain=full_chain))
    assert found == ({"N", "S"} if satellites else {"N"})


def pilots_world(**activity: Any) -> Any:
    queues = [a_queue("SEEN"), a_queue("OTHER"), a_queue("FREE", options={"allow_no_pilot": "true"})]
    return a_world(queues, activities=[Activity("SEEN", **activity)])


def test_queues_without_pilots_for_the_last_3_hours_are_skipped() -> None:
    recent, old = NOW - timedelta(hours=2.9), NOW - timedelta(hours=3.1)
    assert passed(capacity.has_pilots, pilots_world(last_pilot_at=recent), a_request()) == {"SEEN", "FREE"}
    assert passed(capacity.has_pilots, pilots_world(last_pilot_at=old), a_request()) == {"FREE"}


def test_where_no_pilot_was_ever_seen_nothing_is_known_of_any_queue() -> None:
    assert passed(capacity.has_pilots, pilots_world(), a_request()) == {"SEEN", "OTHER", "FREE"}


def test_until_three_hours_after_the_first_sign_of_life_unseen_queues_pass() -> None:
    young = pilots_world(last_pilot_at=NOW, known_since=NOW - timedelta(hours=1))
    assert passed(capacity.has_pilots, young, a_request()) == {"SEEN", "OTHER", "FREE"}
    grown = pilots_world(last_pilot_at=NOW, known_since=NOW - timedelta(hours=4))
    assert passed(capacity.has_pilots, grown, a_request()) == {"SEEN", "FREE"}


@pytest.mark.parametrize(("closeness", "expected"), [(0, True), (6, True), (7, False)])
@pytest.mark.parametrize("urgent", [{"priority": 1000}, {"processing_type": "urgent"}])
def test_urgent_work_needs_a_network_weight_of_at_least_nw_threshold(closeness, expected, urgent) -> None:
    world = two(links=[Link("SAT", "NUC", closeness=closeness)])
    assert ("S" in passed(capacity.near_enough, world, a_request(nucleus="NUC", **urgent))) is expected
    assert "S" in passed(capacity.near_enough, world, a_request(nucleus="NUC"))
    limits = JobLimits(network_weight_multiplier=2.0)
    assert passed(capacity.near_enough, world, a_request(nucleus="NUC", limits=limits, **urgent)) == set()


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [({}, None), ({"activated": 20}, None), ({"activated": 21}, "activated_and_starting"),
     ({"activated": 10, "starting": 11}, "activated_and_starting"), ({"activated": 60, "running": 30}, None),
     ({"defined": 21}, "queued"), ({"assigned": 21}, "queued"), ({"assigned": 50, "running": 25}, None)],
)  # fmt: skip
def test_queues_with_more_than_twice_the_running_jobs_waiting_are_skipped_with_a_floor_of_20(jobs, expected) -> None:
    world = a_world([a_queue("A")], jobs=at("A", **jobs))
    dataset = InputDataset("d", 10, 1000)
    why = ProductionJobBrokerage().decide(world, a_request(inputs=(dataset,)), 1).exclusion("A")
    assert (why[0].name if why else None) == expected


def test_assigned_jobs_do_not_block_work_whose_input_is_at_hand() -> None:
    world = a_world([a_queue("A")], jobs=at("A", assigned=500))
    dataset = InputDataset("d", 10, 1000, (InputReplica("SITE_DATADISK", 10, 1000),))
    assert ProductionJobBrokerage().decide(world, a_request(inputs=(dataset,)), 1).chosen == ("A",)
    assert ProductionJobBrokerage().decide(world, a_request(inputs=(replace(dataset, replicas=()),)), 1).chosen == ()


def test_the_floor_may_be_set_for_a_share() -> None:
    world = a_world([a_queue("A")], jobs=at("A", activated=30))
    assert not CAPS.run(world, a_request()).alive.any()
    assert CAPS.run(world, a_request(limits=JobLimits(queued_jobs_floor=30))).alive.all()


def test_a_grid_on_which_nothing_ever_ran_takes_work() -> None:
    queues = [a_queue(f"Q{n}", f"S{n}") for n in range(12)]
    decision = ProductionJobBrokerage().decide(a_world(queues), a_request(nucleus="S0"), 1)
    assert len(decision.chosen) == 10
    scouts = ProductionJobBrokerage().decide(a_world(queues), a_request(nucleus="S0", is_scout=True, priority=901), 1)
    assert scouts.chosen == ("Q0",)


def test_every_exclusion_has_a_tier_numbers_and_whether_it_may_pass_by_itself() -> None:
    world = a_world([a_queue("A")], jobs=at("A", transferring=2001))
    summary = ProductionJobBrokerage().decide(world, a_request(), 1).summary()
    assert summary["tiers"] == {"capacity": 1} and summary["temporary"]
    assert summary["nearest_miss"]["found"] == "transferring jobs 2001 jobs"
    assert summary["nearest_miss"]["wanted"] == "at most 2000 jobs"


@pytest.mark.parametrize(
    ("files", "events", "job", "expected"),
    [(100, 0, SmallestJob(3), 34), (1, 10_000, SmallestJob(1, 500), 20), (0, 0, SmallestJob(1), 1)],
)
def test_the_number_of_jobs_of_a_chunk_is_estimated(files, events, job, expected) -> None:
    assert jobs_of_chunk({"chunk_files": files, "chunk_events": events}, job) == expected


@pytest.mark.parametrize(
    ("asked", "accepted"),
    [
        ("full#IPv4", {"full#IPv4"}), ("http#IPv4", {"full#IPv4", "http#IPv4"}),
        ("none#IPv6", {"full#IPv6", "none#IPv6"}), ("http", {"full#IPv4", "http#IPv4", "full#IPv6", "http"}),
        ("none", {"full#IPv4", "http#IPv4", "full#IPv6", "none#IPv6", "http", "none"}),
    ],
)  # fmt: skip
def test_wnconnectivity_is_consistent_with_ip_connectivity_as_connectivity_and_ip_stack(asked, accepted) -> None:
    """A task that names no IP stack does not mind; one that names it needs a queue with the same."""
    names = ("full#IPv4", "http#IPv4", "full#IPv6", "none#IPv6", "http", "none")
    queues = []
    for name in names:
        network, _, stack = name.partition("#")
        queues.append(a_queue(name, connectivity=network, ip_stack=stack))
    needs = needs_of_task({"ram_count": 1000, "cpu_time": 10, "split_rule": {"ipConnectivity": asked}})
    decision = ProductionJobBrokerage().decide(a_world(queues), a_request(needs=needs), 1)
    assert {one.queue for one in decision.candidates} == accepted
