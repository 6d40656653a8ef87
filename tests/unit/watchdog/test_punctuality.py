"""When a task that is wanted by a time ends, and whether that is too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.watchdog.policy.punctuality import Ended, WantedTask, end_of, late, sampled

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
TASK = WantedTask(
    task_id=1, status="running", label="managed", priority=500, due_at=NOW + 12 * HOUR, created_at=NOW - 5 * HOUR,
    started_at=NOW - 4 * HOUR, n_units=1000, n_ended=400, older=Ended(NOW - HOUR, 350), newer=Ended(NOW, 400),
)  # fmt: skip


def test_the_better_of_two_rates_says_when_at_the_earliest_the_worse_when_at_the_latest() -> None:
    end = end_of(TASK, NOW)
    assert (end.earliest_at, end.latest_at) == (NOW + 6 * HOUR, NOW + 12 * HOUR)
    assert end.told == "600 of 1000 units are left; 100 ended in an hour, lately 50"


def test_without_a_second_measurement_there_is_one_time() -> None:
    end = end_of(replace(TASK, older=None), NOW)
    assert end.earliest_at == end.latest_at == NOW + 6 * HOUR


def test_where_nothing_ended_lately_nobody_can_say_when_at_the_latest() -> None:
    end = end_of(replace(TASK, older=Ended(NOW - HOUR, 400)), NOW)
    assert (end.earliest_at, end.latest_at) == (NOW + 6 * HOUR, None)


@pytest.mark.parametrize("change", [{"n_ended": 0, "older": None}, {"started_at": None}, {"n_units": 0}])
def test_where_nothing_ended_nobody_can_say(change: dict[str, Any]) -> None:
    end = end_of(replace(TASK, **change), NOW)
    assert (end.earliest_at, end.latest_at) == (None, None) and "too few to say" in end.told


@pytest.mark.parametrize(
    ("change", "is_late"),
    [
        ({}, False),
        ({"due_at": NOW + 12 * HOUR - SECOND}, True),
        ({"due_at": NOW + 12 * HOUR - SECOND, "status": "paused"}, False),
        ({"due_at": NOW + 12 * HOUR - SECOND, "status": "exhausted"}, False),
        ({"due_at": NOW - HOUR, "n_ended": 1000}, False),
        ({"older": Ended(NOW - HOUR, 400)}, True),
        # nothing ended: half of its time
        ({"n_ended": 0, "due_at": NOW + 5 * HOUR}, True),
        ({"n_ended": 0, "due_at": NOW + 5 * HOUR + SECOND}, False),
    ],
)
def test_a_task_is_late_that_may_end_after_it_is_wanted(change: dict[str, Any], is_late: bool) -> None:
    task = replace(TASK, **change)
    assert (late(task, end_of(task, NOW), NOW) is not None) == is_late


def test_a_late_task_says_by_which_numbers() -> None:
    task = replace(TASK, due_at=NOW + 8 * HOUR)
    assert late(task, end_of(task, NOW), NOW) == (
        "it is wanted by 2026-03-01 20:00 UTC, and ends between 2026-03-01 18:00 UTC and 2026-03-02 00:00 UTC: 600 of "
        "1000 units are left; 100 ended in an hour, lately 50"
    )


def test_a_measurement_is_kept_for_an_hour_or_two() -> None:
    first = sampled(replace(TASK, older=None, newer=None), NOW)
    assert (first.older, first.newer) == (None, Ended(NOW, 400))
    assert sampled(first, NOW + HOUR - SECOND) == first
    second = sampled(replace(first, n_ended=450), NOW + HOUR)
    assert (second.older, second.newer) == (Ended(NOW, 400), Ended(NOW + HOUR, 450))
