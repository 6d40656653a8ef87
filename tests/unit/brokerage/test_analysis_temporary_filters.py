"""Analysis: filters for temporary issues, and the Analysis Stabilizer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shared.brokerage.analysis_facts import UsageRows
from shared.brokerage.load import JobCount
from shared.brokerage.stabilizer import affordable_queue, max_user_queue, may_be_throttled, user_percentage
from shared.model.world_file import QueueHistory
from tests.unit.brokerage.analysis_worlds import (
    an_analysis,
    counted,
    decided,
    left_out,
    outcome,
    stabilized,
    two_queues,
)


@pytest.mark.parametrize(
    ("finished", "failed", "closed", "check"),
    [(0, 2, 2, None), (0, 3, 2, "bad_jobs"), (3, 3, 2, None), (3, 4, 2, "bad_jobs")],
)
def test_queues_where_many_jobs_of_the_task_failed_or_were_closed_are_left_out(finished, failed, closed, check) -> None:
    history = QueueHistory(outcomes=[
        outcome("Q_A", n_finished=finished, n_failed=failed, n_closed=closed), outcome("Q_B", 7, n_failed=99),
    ])  # fmt: skip
    decision = decided(two_queues(), an_analysis(rows=UsageRows(history=history)))
    assert left_out(decision, "Q_A") == check
    assert left_out(decision, "Q_B") is None  # longer ago than TW_DONE_JOB_STAT


@pytest.mark.parametrize(("running", "queued", "check"), [(0, 40, None), (0, 41, "long_queue"), (30, 60, None)])
def test_queues_with_more_than_twice_as_many_queued_as_running_jobs_are_left_out(running, queued, check) -> None:
    jobs = [JobCount("Q_A", "SCORE", "running", running), JobCount("Q_A", "SCORE", "starting", queued)]
    assert left_out(decided(two_queues(jobs=jobs), an_analysis()), "Q_A") == check


def test_a_user_with_too_many_queued_jobs_at_a_queue_gets_no_more_there() -> None:
    rows, limits = UsageRows([counted("Q_A", "activated", 8)]), {"user_queued_jobs_cap": 7}
    assert left_out(decided(two_queues(), an_analysis(rows=rows, limits=limits)), "Q_A") == "user_queue"


def test_a_task_that_has_used_its_number_of_sites_stays_there() -> None:
    used = {"queues_used": frozenset({"Q_A"})}
    request = an_analysis(task=used, limits={"max_sites_of_task": 1})
    assert left_out(decided(two_queues(), request), "Q_B") == "sites_of_task"
    assert left_out(decided(two_queues(), an_analysis(task=used, limits={"max_sites_of_task": 2})), "Q_B") is None


@pytest.mark.parametrize(
    ("queued", "started_6h", "throttled"), [(99, 0, False), (100, 0, True), (100, 76, False), (110, 60, True)]
)
def test_a_queue_with_few_queued_jobs_or_a_short_expected_wait_is_not_throttled(queued, started_6h, throttled) -> None:
    assert may_be_throttled(stabilized(queued, 0, started_6h=started_6h))[0] == throttled


@pytest.mark.parametrize(
    ("running", "started_6h", "longest"), [(10, 0, 100), (60, 0, 120), (60, 66, 132)]
)  # fmt: skip
def test_the_affordable_queue_is_the_largest_of_base_ratio_and_expected_wait(running, started_6h, longest) -> None:
    assert affordable_queue(stabilized(0, running, started_6h=started_6h))[0] == pytest.approx(longest)


def test_the_users_percentage_is_that_of_running_jobs_or_of_one_user_among_all() -> None:
    assert user_percentage(stabilized(10, 100, mine=1, mine_running=80))[0] == pytest.approx(0.8)
    assert user_percentage(stabilized(10, 100, mine=1, mine_running=10))[0] == pytest.approx(0.5)


def test_the_users_longest_queue_is_the_largest_of_base_ratio_and_his_part_of_the_affordable_queue() -> None:
    assert max_user_queue(stabilized(10, 100, mine=1, mine_running=80))[0] == pytest.approx(160)
    facts = stabilized(10, 4000, mine=0, mine_running=0)
    assert max_user_queue(replace(facts, n_users=np.full(len(facts.queued), 1e6)))[0] == pytest.approx(200)
    idle = stabilized(0, 0)
    assert max_user_queue(replace(idle, n_users=np.full(len(idle.queued), 1e6)))[0] == 5


def test_the_stabilizer_leaves_out_queues_where_the_user_has_enough_and_lets_others_in() -> None:
    rows = [counted("Q_A", "activated", 60, user="bob"), counted("Q_A", "activated", 51)]
    request = an_analysis(rows=UsageRows(rows))
    assert left_out(decided(two_queues(), request), "Q_A") == "analysis_stabilizer"
    assert left_out(decided(two_queues(), an_analysis(rows=UsageRows([rows[0], counted("Q_A", "activated", 50)]))),
                    "Q_A") is None  # fmt: skip
