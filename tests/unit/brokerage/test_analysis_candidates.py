"""Analysis: preliminary candidates, the filters for persistent issues, and the second pass without locality."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.brokerage.limits import JobLimits
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.world import World
from shared.model.queue import QueueStatus, QueueType
from shared.task.needs import WorkNeeds
from tests.unit.brokerage.analysis_worlds import an_analysis, at, decided, left_out, two_queues
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_storage, a_world


def test_candidates_are_analysis_and_unified_queues() -> None:
    world = a_world([
        a_queue("Q_A", "A", type=QueueType.ANALYSIS), a_queue("Q_P", "P", type=QueueType.PRODUCTION),
        a_queue("Q_U", "U"),
    ])  # fmt: skip
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_P") == "queue_type"
    assert {one.queue for one in decision.candidates} == {"Q_A", "Q_U"}


def test_excluded_sites_are_left_out_and_of_included_sites_only_those_are_taken() -> None:
    world = two_queues()
    assert left_out(decided(world, an_analysis(excluded=("Q_A",))), "Q_A") == "excluded_sites"
    assert left_out(decided(world, an_analysis(included=("Q_A",))), "Q_B") == "included_sites"


def test_the_queue_must_be_online_unless_it_is_preassigned() -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.TEST), a_queue("Q_B", "B")])
    assert left_out(decided(world, an_analysis()), "Q_A") == "status"
    assert [one.queue for one in decided(world, an_analysis(preassigned=("Q_A",))).candidates] == ["Q_A"]


@pytest.mark.parametrize("named", [{"included": ("Q_A",)}, {"preassigned": ("Q_A",)}])
def test_pre_assigned_queues_are_those_of_included_site_or_of_site(named) -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.BROKEROFF), a_queue("Q_B", "B")])
    decision = decided(world, an_analysis(**named))
    assert [one.queue for one in decision.candidates] == ["Q_A"]
    assert left_out(decision, "Q_B") == ("included_sites" if "included" in named else "preassigned")


def test_queues_without_the_input_are_left_out() -> None:
    decision = decided(two_queues(), an_analysis(inputs=at("A_DATADISK")))
    assert left_out(decision, "Q_B") == "input_locality" and left_out(decision, "Q_A") is None


@pytest.mark.parametrize(
    ("priority", "io_intensity", "cutoff", "check"),
    [
        (2000, 900.0, 0.0, None), (1999, 900.0, 0.0, "input_locality"),
        (0, 100.0, 100.0, None), (0, 101.0, 100.0, "input_locality"),
        (0, 0.0, 0.0, "input_locality"),  # IO_INTENSITY_CUTOFF_USER is not set
    ],
)  # fmt: skip
def test_the_locality_check_is_suppressed_at_priority_2000_or_up_to_io_intensity_cutoff_user(
    priority, io_intensity, cutoff, check
) -> None:
    request = an_analysis(
        inputs=at("A_DATADISK"),
        priority=priority,
        needs=replace(LIGHT, io_intensity_kb_s=io_intensity),
        limits_of_jobs=JobLimits(io_intensity_cutoff_user_kb_s=cutoff),
    )
    assert left_out(decided(two_queues(), request), "Q_B") == check


def test_when_all_are_left_out_for_persistent_reasons_the_second_pass_does_not_ask_for_locality() -> None:
    world = a_world([a_queue("Q_A", "A", status=QueueStatus.OFFLINE), a_queue("Q_B", "B")])
    assert [one.queue for one in decided(world, an_analysis(inputs=at("A_DATADISK"))).candidates] == ["Q_B"]


def test_when_the_data_queue_is_only_full_for_now_the_task_waits_20_minutes() -> None:
    jobs = [JobCount("Q_A", "SCORE", "activated", 41)]
    decision = decided(two_queues(jobs=jobs), an_analysis(inputs=at("A_DATADISK")))
    assert decision.chosen == () and decision.retry_at == NOW + timedelta(minutes=20)
    assert (left_out(decision, "Q_A"), left_out(decision, "Q_B")) == ("long_queue", "input_locality")


def test_disk_io_above_the_limit_of_a_queue_that_is_above_it_is_left_out() -> None:
    world = a_world(
        [a_queue("Q_A", "A", max_disk_io_kb_s=100), a_queue("Q_B", "B")],
        activities=[Activity("Q_A", mean_disk_io_kb_s_per_core=200.0), Activity("Q_B")],
    )
    decision = decided(world, an_analysis(needs=replace(LIGHT, disk_io_kb_s=500.0)))
    assert left_out(decision, "Q_A") == "disk_io" and left_out(decision, "Q_B") is None


def test_core_counts_must_match() -> None:
    world = a_world(
        [
            a_queue("Q_A", "A", type=QueueType.ANALYSIS, core_count=8),
            a_queue("Q_B", "B", type=QueueType.ANALYSIS),
        ]
    )
    assert left_out(decided(world, an_analysis()), "Q_A") == "core_count"


def test_vp_queues_are_left_out_if_the_task_avoids_them_or_they_are_overloaded() -> None:
    def world(queued: int) -> World:
        jobs = [JobCount("Q_A", "SCORE", "activated", queued), JobCount("Q_A", "SCORE", "running", 15)]
        jobs += [JobCount("Q_B", "SCORE", "running", 100)]
        return a_world([a_queue("Q_A", "A", options={"use_vp": "true"}), a_queue("Q_B", "B")], jobs=jobs)

    assert left_out(decided(world(0), an_analysis(task={"avoid_vp": True})), "Q_A") == "avoid_vp"
    assert left_out(decided(world(20), an_analysis()), "Q_A") is None
    assert left_out(decided(world(21), an_analysis()), "Q_A") == "vp_overloaded"


def test_estimated_memory_times_compensation_must_be_within_the_range_of_the_queue() -> None:
    world = a_world([
        a_queue("Q_LOW", "A", type=QueueType.ANALYSIS, max_rss_mb=1799),
        a_queue("Q_FIT", "B", type=QueueType.ANALYSIS, max_rss_mb=1800, min_rss_mb=1800),
        a_queue("Q_HIGH", "C", type=QueueType.ANALYSIS, max_rss_mb=9000, min_rss_mb=1801),
    ])  # fmt: skip
    decision = decided(world, an_analysis(needs=WorkNeeds(ram_mb=1500, ram_per_core=True, base_ram_mb=500)))
    assert left_out(decision, "Q_LOW") == "memory_too_large"
    assert left_out(decision, "Q_FIT") is None
    assert left_out(decision, "Q_HIGH") == "memory_too_small"


def test_output_needs_200_gb_of_free_space_and_a_storage_that_is_not_blacklisted() -> None:
    storages = [
        a_storage("A_DATADISK", "A", space_free_gb=200.0), a_storage("B_DATADISK", "B", blacklisted_write=True),
        a_storage("C_DATADISK", "C", space_free_gb=201.0),
    ]  # fmt: skip
    world = a_world([a_queue(f"Q_{site}", site) for site in "ABC"], storages=storages)
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_A") == "free_space"
    assert left_out(decision, "Q_B") == "write_storage"
    assert left_out(decision, "Q_C") is None


def test_queues_without_pilots_for_three_hours_are_left_out() -> None:
    old, fresh = NOW - timedelta(hours=3, seconds=1), NOW - timedelta(hours=2)
    long_ago = NOW - timedelta(days=9)
    world = two_queues(
        activities=[
            Activity("Q_A", last_pilot_at=old, known_since=long_ago),
            Activity("Q_B", last_pilot_at=fresh, known_since=long_ago),
        ]
    )
    decision = decided(world, an_analysis())
    assert left_out(decision, "Q_A") == "pilots" and left_out(decision, "Q_B") is None
