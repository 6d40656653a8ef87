"""How long tasks wait, and when they are exhausted, throttled or at their goal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.watchdog.policy.tasks import (
    AssigningTask,
    PendingLimits,
    PendingTask,
    Throttle,
    no_nucleus,
    release,
    throttle,
    unthrottled_status,
)
from shared.states import TASK, Owner
from shared.states.task import HOLDABLE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def pending(minutes: float, **values: object) -> PendingTask:
    since = NOW - minutes * MINUTE
    task = PendingTask(
        task_id=1,
        old_status="ready",
        priority=100,
        label="managed",
        pending_since=since,
        waiting_since=since,
        retry_at=None,
    )
    return replace(task, **values)


@pytest.mark.parametrize(("priority", "minutes"), [(899, 60), (900, 30), (949, 30), (950, 10), (2000, 10), (0, 60)])
def test_a_pending_task_without_a_time_waits_by_its_priority(priority: int, minutes: int) -> None:
    assert release(pending(minutes - 0.1, priority=priority), PendingLimits(), NOW) is None
    decision = release(pending(minutes, priority=priority), PendingLimits(), NOW)
    assert decision is not None and decision.to_status == "ready"


def test_a_pending_task_with_a_time_waits_for_it_whatever_its_priority() -> None:
    assert release(pending(300, priority=950, retry_at=NOW + MINUTE), PendingLimits(), NOW) is None
    assert release(pending(1, priority=0, retry_at=NOW), PendingLimits(), NOW) is not None


@pytest.mark.parametrize("old_status", HOLDABLE)
def test_a_released_task_goes_back_to_where_it_came_from(old_status: str) -> None:
    decision = release(pending(61, old_status=old_status), PendingLimits(), NOW)
    assert decision is not None and decision.to_status == old_status
    TASK.check("pending", old_status, Owner.WATCHDOG)


@pytest.mark.parametrize("old_status", [None, "done", "nonsense"])
def test_a_task_that_does_not_know_where_it_came_from_is_made_ready(old_status: str | None) -> None:
    decision = release(pending(61, old_status=old_status), PendingLimits(), NOW)
    assert decision is not None and decision.to_status == "ready"


@pytest.mark.parametrize(
    ("days", "parent", "status"),
    [(7, None, "ready"), (7.01, None, "exhausted"), (7.01, "running", "ready"), (7.01, "done", "exhausted"),
     (7.01, "broken", "exhausted")],
)  # fmt: skip
def test_a_task_pending_for_seven_days_is_exhausted_unless_its_parent_works(
    days: float, parent: str | None, status: str
) -> None:
    decision = release(pending(61, waiting_since=NOW - days * DAY, parent_status=parent), PendingLimits(), NOW)
    assert decision is not None and decision.to_status == status


def test_the_time_until_exhausted_is_a_parameter_of_the_label() -> None:
    limits = PendingLimits(timeout_h={"user": 1.0})
    old = pending(61, label="user")
    assert release(old, limits, NOW) == replace(release(old, limits, NOW), to_status="exhausted")  # type: ignore[type-var]
    assert release(replace(old, label="managed"), limits, NOW).to_status == "ready"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("days", "label", "parent", "is_exhausted"),
    [(7, "managed", None, False), (7.01, "managed", None, True), (7.01, "managed", "running", False),
     (7.01, "managed", "done", True), (1.01, "user", None, True), (700, "test", None, False)],
)  # fmt: skip
def test_a_task_that_finds_no_nucleus_is_exhausted_like_a_pending_one(
    days: float, label: str, parent: str | None, is_exhausted: bool
) -> None:
    limits = PendingLimits(timeout_h={"user": 24.0, "test": 0.0})
    verdict = no_nucleus(AssigningTask(1, label, NOW - days * DAY, parent), limits, NOW)  # type: ignore[arg-type]
    assert (verdict is not None) is is_exhausted
    if verdict is not None:
        assert verdict.to_status == "exhausted" and "assigning for more than" in verdict.reason
        TASK.check("assigning", "exhausted", Owner.WATCHDOG)


@pytest.mark.parametrize(
    ("attempts", "times", "expected"),
    [(4, 0, None), (5, 0, Throttle(1, 120)), (9, 1, None), (10, 1, Throttle(2, 480)), (14, 2, None),
     (15, 0, Throttle(3, 1080))],
)  # fmt: skip
def test_each_multiple_of_five_attempts_throttles_once_and_for_longer(
    attempts: int, times: int, expected: Throttle | None
) -> None:
    assert throttle(attempts, times, 5) == expected


def test_zero_attempts_switch_throttling_off_and_a_negative_number_is_refused() -> None:
    assert throttle(100, 0, 0) is None
    with pytest.raises(ValueError, match="every_attempts: -1"):
        throttle(1, 0, -1)


@pytest.mark.parametrize(("old", "new"), [("scouting", "scouting"), ("ready", "ready"), (None, "running")])
def test_a_throttled_task_goes_on_where_it_was(old: str | None, new: str) -> None:
    assert unthrottled_status(old) == new


def test_a_timeout_of_0_exhausts_no_pending_task() -> None:
    limits = PendingLimits(timeout_h={"managed": 0.0})
    decision = release(pending(61, waiting_since=NOW - 400 * DAY), limits, NOW)
    assert decision is not None and decision.to_status == "ready"


def test_a_label_without_a_timeout_of_its_own_has_that_of_all() -> None:
    limits = PendingLimits(timeout_h={"": 1.0, "managed": 9.0})
    decision = release(pending(0, label="odd", waiting_since=NOW - 2 * 60 * MINUTE), limits, NOW)
    assert decision is not None and decision.to_status == "exhausted"
