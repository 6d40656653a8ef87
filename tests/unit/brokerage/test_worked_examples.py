"""The worked examples in the docstrings of formulas, as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from services.job_generation.policy.outcomes import Attempts, attempts_left
from services.job_generation.scouts.reports import ScoutReport
from services.job_generation.scouts.verdicts import ScoutParameters, ScoutProgress, judge, measured
from services.job_generation.splitting.limits import ram_mb as ram_mb_of_job
from services.task_definition.tasks.policy.final_status import (
    TaskEnd,
    final_status,
)
from services.watchdog.policy.rebrokerage import ShareAtQueue, Thresholds, overloads
from services.watchdog.policy.tasks import Throttle, throttle
from shared.brokerage import estimates
from shared.brokerage.zero_share import parse_policy, work_of
from shared.model.progress import failure_rate_percent, progress_percent
from shared.model.units import MB_BYTES as MB
from shared.order.tree import Node, normalised
from shared.states.job import JobStatus
from shared.task.needs import WorkNeeds
from shared.timeouts.judging import overdue
from shared.timeouts.limits import TimeLimits
from shared.timeouts.rule import WatchedJob

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_the_memory_of_a_job_of_eight_cores() -> None:
    needs = WorkNeeds(core_count=8, ram_mb=2000, ram_per_core=True, base_ram_mb=500)
    assert ram_mb_of_job(needs, 8) == 14850
    assert estimates.ram_mb(needs, np.array([8])).tolist() == [14850.0]


def test_the_walltime_of_a_job_whose_cpu_efficiency_is_one_half() -> None:
    needs = WorkNeeds(cpu_time_hs06_s_per_event=10.0, cpu_efficiency=0.5, base_walltime_s=60)
    assert estimates.work_of(needs, 1000) == 20000
    assert estimates.walltime_of_job_s(needs, 1000, 2, 10.0) == pytest.approx(1060)


def test_a_throttled_task_pauses_for_480_minutes_at_attempt_12() -> None:
    assert throttle(12, 1, 5) == Throttle(2, 480)


def test_siblings_of_values_three_and_one_are_due_75_and_25_percent() -> None:
    due = normalised([Node("root", 1), Node("a", 3, "root"), Node("b", 1, "root")])
    assert (due["a"], due["b"]) == (75, 25)


def test_a_limit_of_three_attempts_leaves_two_retries() -> None:
    assert [attempts_left(Attempts(number, 3, number, None)) for number in (1, 2, 3)] == [True, True, False]


def test_percentages_of_progress_and_failure() -> None:
    assert (progress_percent(3, 2), failure_rate_percent(9, 3)) == (66, 25)


def test_forty_of_a_hundred_waiting_jobs_leave_an_overloaded_queue() -> None:
    thresholds = Thresholds(ratio=3, fraction=0.1, n_queued={"s": 30})
    counts = [ShareAtQueue("Q", "s", 100, 20), ShareAtQueue("R", "s", 100, 100)]
    assert [(one.queue, one.n_excess) for one in overloads(counts, thresholds)] == [("Q", 40)]


def test_a_policy_of_zero_share_takes_work_above_a_priority() -> None:
    policy = parse_policy("priority>500:100%,type=any:0%")
    assert [policy.turns_away(work_of("simul", "", "", priority)) for priority in (501, 500)] == [0, 2]


@pytest.mark.parametrize(
    ("progress", "rate", "go", "give_up"),
    [
        (ScoutProgress(10, 5, 0, 5, 0, 5, 5), None, True, False),
        (ScoutProgress(10, 4, 6, 4, 6), 4, True, False),
        (ScoutProgress(10, 4, 6, 4, 6), 5, False, True),
    ],
)
def test_half_of_the_scout_jobs_or_the_success_rate_decides(
    progress: ScoutProgress, rate: int | None, go: bool, give_up: bool
) -> None:
    found = judge(progress, rate)
    assert (found.go, found.give_up) == (go, give_up)


@pytest.mark.parametrize(
    ("task", "report", "column", "value"),
    [
        ({"base_walltime": 600, "cpu_efficiency": 90}, ScoutReport(1000, 0, None, 6600.0, 1, 10.0), "cpu_time", 81),
        ({"out_disk_unit": "kBPerEvent"}, ScoutReport(1000, 0, 100 * MB, None, 1, 10.0), "out_disk_count", 103),
        ({}, ScoutReport(None, 900 * MB, 100 * MB, 1000.0, 1, 10.0), "io_intensity", 1024),
        ({}, ScoutReport(None, 1440 * MB, None, None, 1, 10.0, cpu_time_s=7200.0), "walltime", 8),
    ],
)
def test_what_is_measured_by_one_scout_job(
    task: dict[str, object], report: ScoutReport, column: str, value: int
) -> None:
    assert measured(task, [report], ScoutParameters())[column] == value


@pytest.mark.parametrize(
    ("goal", "asks", "status"),
    [
        (950, {"use_exhausted": True}, "finished"),
        (960, {"use_exhausted": True}, "exhausted"),
        (960, {"fail_when_goal_unreached": True}, "failed"),
        (960, {}, "finished"),
    ],
)
def test_a_goal_decides_about_a_task_with_95_of_100_files(goal: int, asks: dict[str, bool], status: str) -> None:
    assert final_status(TaskEnd("prepared", 100, 95, 950, goal=goal, **asks)).status == status


@pytest.mark.parametrize(
    ("state", "minutes", "priority", "rule"),
    [
        ("running", 121, 500, "heartbeat"),
        ("running", 120, 500, None),
        ("holding", 240, 800, "holding_high"),
        ("holding", 240, 799, None),
    ],
)
def test_a_job_is_overdue_by_the_first_rule_whose_limit_it_has_passed(
    state: JobStatus, minutes: int, priority: int, rule: str | None
) -> None:
    since = NOW - timedelta(minutes=minutes)
    job = WatchedJob(1, state, since, since, since, priority, "managed", "Q")
    found = overdue(job, TimeLimits(), NOW)
    assert (found.rule if found else None) == rule
