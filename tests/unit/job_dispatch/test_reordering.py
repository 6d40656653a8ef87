"""Priorities by kind of job, and what a change of a task makes of its waiting jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.policy.lane import Lane
from services.job_dispatch.policy.reordering import (
    NewOrder,
    OrderChange,
    WaitingJob,
    lane_jobs_of,
    new_order,
    share_moves_of,
)
from shared.model.grid_preferences import most_priority, unknown_letters
from shared.model.priorities import analysis_priority, job_priority

JOB = WaitingJob(7, 1, "activated", "normal", "Q1", "SCORE", "alice", 3, 4, "MC", 500)


@pytest.mark.parametrize(
    ("kind", "task_priority", "given", "expected"),
    [
        ("normal", 450, {}, 450),
        ("scout", 450, {}, 901),
        ("scout", 901, {}, 902),
        ("merge", 450, {}, 5000),
        ("merge", 1000, {"is_analysis": True}, 5000),
        ("normal", 1000, {"is_analysis": True}, 1000),
        ("normal", 1000, {"is_analysis": True, "serial": 4}, 1000),
        ("normal", 1000, {"is_analysis": True, "serial": 5}, 999),
        ("normal", 1000, {"is_analysis": True, "serial": 11, "weight": 0.25}, 973),
        ("normal", 1000, {"is_analysis": True, "weight": 0.999}, 901),
        ("normal", 1500, {"is_analysis": True}, 1500),
        ("build", 1000, {"is_analysis": True}, 2000),
        ("build", 1500, {"is_analysis": True}, 2500),
        ("install", 10, {}, 4100),
        ("express", 10, {"is_analysis": True}, 6000),
        ("express_build", 10, {"is_analysis": True}, 6500),
    ],
)
def test_a_job_gets_the_priority_of_its_kind(kind: str, task_priority: int, given: dict, expected: int) -> None:
    assert job_priority(kind, task_priority, **given) == expected


@given(st.integers(0, 100_000), st.integers(0, 100_000), st.floats(0, 10))
def test_who_has_fewer_jobs_is_never_behind(serial: int, more: int, weight: float) -> None:
    assert analysis_priority(0, serial, weight) >= analysis_priority(0, serial + more, weight)


@pytest.mark.parametrize(
    ("letters", "has_group", "expected"),
    [
        ("", False, 1000),
        ("kp", True, 1000),
        ("s", False, 1500),
        ("s", True, 1500),
        ("g", False, 1000),
        ("g", True, 1500),
    ],
)
def test_super_users_and_super_groups_may_go_to_1500(letters: str, has_group: bool, expected: int) -> None:
    assert most_priority(letters, has_group=has_group) == expected


def test_letters_without_a_meaning_are_named() -> None:
    assert unknown_letters("kpsgta") == [] and unknown_letters("kxz") == ["x", "z"]


@pytest.mark.parametrize(
    ("job", "change", "expected"),
    [
        (JOB, OrderChange(1, priority=700), ("MC", 700)),
        (JOB, OrderChange(1, gshare="Data"), ("Data", 500)),
        (JOB, OrderChange(1, 700, "Data"), ("Data", 700)),
        (replace(JOB, job_type="scout", priority=901), OrderChange(1, priority=700), ("MC", 901)),
        (replace(JOB, job_type="scout", priority=901), OrderChange(1, priority=950), ("MC", 951)),
        (replace(JOB, job_type="merge", priority=5000), OrderChange(1, 700, "Data"), ("Data", 5000)),
    ],
)
def test_waiting_jobs_follow_their_task(job: WaitingJob, change: OrderChange, expected: tuple[str, int]) -> None:
    found = new_order(job, change)
    assert (found.gshare, found.priority) == expected


def test_news_name_activated_jobs_only_and_statistics_count_every_state() -> None:
    throttled = replace(JOB, job_id=8, status="throttled")
    change = OrderChange(1, 700, "Data")
    orders = {one.job_id: new_order(one, change) for one in (JOB, throttled)}
    (told,) = lane_jobs_of((JOB, throttled), orders)
    assert (told.job_id, told.gshare, told.from_gshare, told.priority) == (7, "Data", "MC", 700)
    moves = share_moves_of((JOB, throttled), orders)
    assert [(move.status, move.from_gshare, move.to_gshare, move.n_jobs, move.n_cores) for move in moves] == [
        ("activated", "MC", "Data", 1, 4),
        ("throttled", "MC", "Data", 1, 4),
    ]
    same_share = {one.job_id: new_order(one, OrderChange(1, priority=9)) for one in (JOB, throttled)}
    assert share_moves_of((JOB, throttled), same_share) == ()


def nobody(_: int) -> bool:
    return False


def drained(lane: Lane) -> list[tuple[int, int]]:
    found = []
    while (head := lane.head(0, nobody)) is not None:
        found.append(lane.pop(head[2]))
    return found


def test_a_raised_entry_comes_first_and_its_old_place_counts_no_more() -> None:
    lane = Lane("MC", 1, complete=True)
    for entry in ((-9, 1), (-5, 2), (-5, 3)):
        lane.push(entry)
    lane.leave(3)
    lane.arrive((-20, 3))
    assert drained(lane) == [(-20, 3), (-9, 1), (-5, 2)]


def test_a_job_that_left_the_lane_is_not_offered() -> None:
    lane = Lane("MC", 1, complete=True)
    lane.push((-9, 1))
    lane.leave(1)
    assert drained(lane) == [] and len(lane) == 0


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(-5, 0), st.booleans()), max_size=60))
def test_whatever_moves_each_job_is_served_once_by_its_last_priority(steps: list[tuple[int, int, bool]]) -> None:
    lane, last = Lane("MC", 1, complete=True, owns=lambda job_id: job_id % 2 == 0), dict[int, int]()
    for job_id, negated_priority, leaves in steps:
        lane.leave(job_id)
        last.pop(job_id, None)
        if not leaves:
            lane.arrive((negated_priority, job_id))
            last[job_id] = negated_priority
    assert drained(lane) == sorted((negated, job_id) for job_id, negated in last.items())


def test_a_job_without_a_queue_is_in_no_statistics_of_shares() -> None:
    waiting = replace(JOB, status="waiting", queue=None)
    orders = {JOB.job_id: NewOrder("OTHER", 500)}
    assert share_moves_of([waiting], orders) == () and len(share_moves_of([JOB], orders)) == 1
