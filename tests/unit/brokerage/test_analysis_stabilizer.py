"""The Analysis Stabilizer: who may queue how much where, each term by itself and through the whole decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.job_brokerage.policy.stabilizer import affordable_queue, max_user_queue, may_be_throttled, user_percentage
from shared.model.world_file import JobsCounted, QueueHistory
from tests.unit.brokerage.analysis_worlds import (
    UsageRows,
    an_analysis,
    counted,
    decided,
    left_out,
    outcome,
    stabilized,
    two_queues,
)


@pytest.mark.parametrize(
    ("queued", "started_6h", "throttled"), [(99, 0, False), (100, 0, True), (103, 78, False), (104, 78, True)]
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
    assert (
        left_out(decided(two_queues(), an_analysis(rows=UsageRows([rows[0], counted("Q_A", "activated", 50)]))), "Q_A")
        is None
    )


def check_at(rows: list[JobsCounted], mine: int, started_6h: int = 0, hours_ago: float = 1) -> str | None:
    """What leaves Q_A out, with so many queued jobs of alice there."""
    history = QueueHistory(outcomes=[outcome("Q_A", hours_ago, n_started=started_6h)])
    request = an_analysis(rows=UsageRows([*rows, counted("Q_A", "activated", mine)], history))
    return left_out(decided(two_queues(), request), "Q_A")


def of_many(number: int, status: str, each: int) -> list[JobsCounted]:
    return [counted("Q_A", status, each, user=f"user{n}") for n in range(number)]


def of_bob(status: str, n_jobs: int, gshare: str = "User Analysis") -> list[JobsCounted]:
    return [counted("Q_A", status, n_jobs, user="bob", gshare=gshare)]


STABILIZER = "analysis_stabilizer"


def test_a_queue_below_base_queue_length_per_pq_is_not_throttled() -> None:
    """max_q_len is 50 for one of two users."""
    assert check_at(of_bob("activated", 1), 98) is None
    assert check_at(of_bob("activated", 2), 98) == STABILIZER


def test_a_queue_below_base_expected_wait_hour_on_pq_x_trr_is_not_throttled() -> None:
    """78 jobs started in 6 hours: 13 in an hour, 8 h x 13 = 104; max_q_len is 12 h x 13 / 2 = 78."""
    assert check_at(of_bob("activated", 13), 90, started_6h=78) is None
    assert check_at(of_bob("activated", 14), 90, started_6h=78) == STABILIZER
    assert check_at(of_bob("activated", 13), 90, started_6h=78, hours_ago=6.1) == STABILIZER, "trr is of 6 hours"


def test_nq_max_is_base_queue_length_per_pq() -> None:
    """100 x 1/2."""
    assert (check_at(of_bob("activated", 60), 50), check_at(of_bob("activated", 60), 51)) == (None, STABILIZER)


def test_nq_max_is_static_max_queue_running_ratio_x_nr() -> None:
    """2.0 x 200 x 1/2."""
    assert (check_at(of_bob("running", 200), 200), check_at(of_bob("running", 200), 201)) == (None, STABILIZER)


def test_nq_max_is_max_expected_wait_hour_x_trr() -> None:
    """12 h x 20 jobs in an hour x 1/2."""
    rows = of_bob("activated", 100)
    assert (check_at(rows, 120, started_6h=120), check_at(rows, 121, started_6h=120)) == (None, STABILIZER)


def test_the_percentage_of_the_user_is_nr_of_the_user_over_nr() -> None:
    """2.0 x 100 x 80/100."""
    rows = [*of_bob("running", 20), counted("Q_A", "running", 80)]
    assert (check_at(rows, 160), check_at(rows, 161)) == (None, STABILIZER)


def test_the_percentage_of_the_user_is_one_over_n_users_at_least() -> None:
    """100 x 1/4; nothing of alice is running."""
    rows = of_many(3, "activated", 30)
    assert (check_at(rows, 25), check_at(rows, 26)) == (None, STABILIZER)


def test_max_q_len_is_base_default_queue_length_per_pq_user_at_least() -> None:
    """100 x 1/25 is 4, less than 5."""
    rows = of_many(24, "activated", 5)
    assert (check_at(rows, 5), check_at(rows, 6)) == (None, STABILIZER)


def test_max_q_len_is_base_queue_ratio_on_pq_x_nr_at_least() -> None:
    """0.05 x 1000 is 50, more than 2.0 x 1000 x 1/101; 60 jobs of others wait."""
    rows = [*of_many(100, "running", 10), *of_many(60, "activated", 1)]
    assert (check_at(rows, 50), check_at(rows, 51)) == (None, STABILIZER)


def test_queue_lengths_are_those_of_the_gshare() -> None:
    assert check_at(of_bob("activated", 60, gshare="Group Analysis"), 99) is None


def test_every_state_before_running_counts_as_queued() -> None:
    for status in ("defined", "assigned", "activated", "starting"):
        assert check_at(of_bob(status, 60), 51) == STABILIZER
    for status in ("throttled", "holding", "transferring"):
        assert check_at(of_bob(status, 60), 51) is None
