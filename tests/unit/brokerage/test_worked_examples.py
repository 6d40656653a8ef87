"""The worked examples in the docstrings of formulas, as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from services.job_generation.policy.limits import ram_mb as ram_mb_of_job
from services.job_generation.policy.outcomes import Attempts, attempts_left
from services.share_correction.policy.tree import Node, normalised
from services.task_definition.policy.final_status import failure_rate_percent, progress_percent
from services.watchdog.policy.rebrokerage import ShareAtQueue, Thresholds, overloads
from services.watchdog.policy.tasks import Throttle, throttle
from shared.brokerage import estimates
from shared.model.needs import WorkNeeds


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
