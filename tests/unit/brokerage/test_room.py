"""How many jobs a queue has room for, by its statistics alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.limits import JobLimits
from shared.brokerage.load import Activity, JobCount
from shared.brokerage.request import JobRequest, local_data
from shared.brokerage.room import DEFAULT_TRANSFERRING_LIMIT, UNCAPPED, Held, room
from shared.model.queue import QueueStatus
from shared.waits.causes import causes_of
from tests.unit.brokerage.analysis_worlds import an_analysis
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_request, a_world

LIMIT = int(DEFAULT_TRANSFERRING_LIMIT)


@pytest.mark.parametrize(
    ("transferring", "queued", "capped", "expected"),
    [(LIMIT, 0, False, UNCAPPED), (LIMIT, 5000, False, UNCAPPED), (LIMIT + 1, 0, False, 0),
     (LIMIT, 5, True, 20 - 5 + 1), (LIMIT, 20, True, 1), (LIMIT, 21, True, 0), (LIMIT + 1, 0, True, 0)],
)  # fmt: skip
def test_a_policy_without_a_cap_on_queued_jobs_has_room_as_long_as_its_own_check_passes(
    transferring: int, queued: int, capped: bool, expected: float
) -> None:
    """At most 20 queued jobs where nothing runs, and one more decision at the limit."""
    jobs = [JobCount("A", "", "transferring", transferring), JobCount("A", "", "activated", queued)]
    held = Held("transferring", floor=20, capped=capped)
    assert room(a_world([a_queue("A")], jobs=jobs), 0, held, NOW) == expected


@pytest.mark.parametrize(("check", "expected"), [("queued", 0), ("of_another_policy", UNCAPPED)])
def test_a_check_that_statistics_do_not_decide_leaves_room_where_nothing_else_caps(check: str, expected: float) -> None:
    world = a_world([a_queue("A")], jobs=[JobCount("A", "", "activated", 100)])
    assert room(world, 0, Held(check, floor=20, capped=False), NOW) == expected


def test_waiting_jobs_of_another_vo_take_no_room() -> None:
    jobs = [JobCount("A", "", "activated", 240, "cms"), JobCount("A", "", "activated", 5, "atlas")]
    world = a_world([a_queue("A")], jobs=jobs)
    for check in ("queued", "activated_and_starting"):
        assert room(world, 0, Held(check, floor=20, vo="atlas"), NOW) == 20 - 5 + 1
        assert room(world, 0, Held(check, floor=20, vo="cms"), NOW) == 0
    assert room(world, 0, Held("long_queue", vo="atlas"), NOW) > 0 == room(world, 0, Held("long_queue", vo="cms"), NOW)


def at_a(**jobs: int) -> list[JobCount]:
    return [JobCount("A", "", status, n_jobs) for status, n_jobs in jobs.items()]  # type: ignore[arg-type]


AN_HOUR_AGO, LONG_AGO = NOW - timedelta(hours=1), NOW - timedelta(hours=9)
STANDBY = {"status": QueueStatus.STANDBY}


@pytest.mark.parametrize(
    ("check", "busy", "idle", "queue"),
    [
        ("queued", {"jobs": at_a(activated=21)}, {"jobs": at_a(activated=20)}, {}),
        ("activated_and_starting", {"jobs": at_a(activated=21)}, {"jobs": at_a(activated=20)}, {}),
        ("transferring", {"jobs": at_a(transferring=LIMIT + 1)}, {"jobs": at_a(transferring=LIMIT)}, {}),
        ("transferring", {"jobs": at_a(transferring=6)}, {"jobs": at_a(transferring=5)}, {"transferring_limit": 5}),
        ("pilots", {"activities": [Activity("A", last_pilot_at=LONG_AGO)]},
         {"activities": [Activity("A", last_pilot_at=AN_HOUR_AGO)]}, {}),
        ("inactive", {"jobs": at_a(activated=1), "activities": [Activity("A", last_job_start_at=LONG_AGO)]},
         {"jobs": at_a(activated=1), "activities": [Activity("A", last_job_start_at=AN_HOUR_AGO)]}, {}),
        ("disk_io", {"activities": [Activity("A", mean_disk_io_kb_s_per_core=300.0)]},
         {"activities": [Activity("A", mean_disk_io_kb_s_per_core=200.0)]}, {}),
        ("status", {}, {"activities": [Activity("A", n_slots=3)]}, STANDBY),
    ],
)  # fmt: skip
def test_each_check_that_statistics_decide_leaves_room_as_soon_as_it_passes(
    check: str, busy: dict[str, Any], idle: dict[str, Any], queue: dict[str, Any]
) -> None:
    limit = {"pilots": 3 * 3600.0, "inactive": 2 * 3600.0, "disk_io": 250.0}.get(check, 0.0)
    held = Held(check, limit, floor=20)
    assert room(a_world([a_queue("A", **queue)], **busy), 0, held, NOW) == 0
    assert room(a_world([a_queue("A", **queue)], **idle), 0, held, NOW) > 0


def loads(most: int, most_transferring: int) -> st.SearchStrategy[dict[str, Any]]:
    """What `a_world` is told of queue A; a time that was seen once is never unknown again."""
    times = st.integers(0, 240).map(lambda minutes: NOW - timedelta(minutes=minutes))
    statuses = ("defined", "assigned", "activated", "starting", "running")
    numbers = {status: st.integers(0, most) for status in statuses}
    counts = st.fixed_dictionaries({**numbers, "transferring": st.integers(0, most_transferring)})
    activities = st.builds(
        lambda pilot, start, slots, disk_io: Activity(
            "A", pilot, start, n_slots=slots, mean_disk_io_kb_s_per_core=disk_io, known_since=LONG_AGO
        ),
        times,
        times,
        st.none() | st.integers(0, 3),
        st.none() | st.floats(0, 2000),
    )
    return st.builds(lambda jobs, activity: {"jobs": at_a(**jobs), "activities": [activity]}, counts, activities)


REQUESTS = st.sampled_from([
    a_request(), a_request(priority=900), a_request(is_scout=True), an_analysis(),
    a_request(needs=replace(LIGHT, disk_io_kb_s=900.0), limits=JobLimits(max_disk_io_kb_s=500.0)),
])  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(loads(60, 2100), loads(12, 50), REQUESTS, st.sampled_from([{}, STANDBY, {"transferring_limit": 40}]))
def test_there_is_room_wherever_the_decision_would_now_say_yes(
    before: dict[str, Any], after: dict[str, Any], request: JobRequest, queue: dict[str, Any]
) -> None:
    policy = AnalysisJobBrokerage() if request.is_analysis else ProductionJobBrokerage()
    held_back = policy.decide(a_world([a_queue("A", **queue)], **before), request, 1)
    world = a_world([a_queue("A", **queue)], **after)
    assume(not held_back.chosen and policy.decide(world, request, 1).chosen)
    floor = None if request.is_analysis else request.limits.queued_jobs_floor
    causes = causes_of(held_back, floor=floor, has_input=local_data(world.columns, request).missing_files <= 0)
    assert causes.queues, held_back.exclusion("A")
    for held, labels in causes.queues:
        assert labels == ("A",) and room(world, 0, held, NOW) > 0, held
