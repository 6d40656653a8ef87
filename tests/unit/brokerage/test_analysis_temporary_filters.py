"""Analysis: filters for temporary issues."""

from __future__ import annotations

import pytest

from services.job_brokerage.parameters import analysis_limits_from
from shared.brokerage.load import JobCount
from shared.config.parameters import Parameters
from shared.model.world_file import QueueHistory
from tests.unit.brokerage.analysis_worlds import (
    UsageRows,
    an_analysis,
    counted,
    decided,
    left_out,
    outcome,
    two_queues,
)
from tests.unit.brokerage.worlds import a_queue, a_world


@pytest.mark.parametrize(
    ("finished", "failed", "closed", "check"),
    [(0, 2, 2, None), (0, 3, 2, "bad_jobs"), (3, 3, 2, None), (3, 4, 2, "bad_jobs")],
)
def test_queues_where_many_jobs_of_the_task_failed_or_were_closed_are_left_out(finished, failed, closed, check) -> None:
    history = QueueHistory(
        outcomes=[
            outcome("Q_A", n_finished=finished, n_failed=failed, n_closed=closed),
            outcome("Q_B", 7, n_failed=99),
        ]
    )
    decision = decided(two_queues(), an_analysis(rows=UsageRows(history=history)))
    assert left_out(decision, "Q_A") == check
    assert left_out(decision, "Q_B") is None  # longer ago than TW_DONE_JOB_STAT


@pytest.mark.parametrize(("hours", "check"), [(6.0, "bad_jobs"), (5.1, "bad_jobs"), (5.0, None)])
def test_failed_and_closed_jobs_count_for_tw_done_job_stat_hours(hours, check) -> None:
    # counted within the hour that began six hours ago: some of them may be only five hours old
    rows = UsageRows(history=QueueHistory(outcomes=[outcome("Q_A", 6, n_failed=9)]))
    assert left_out(decided(two_queues(), an_analysis(rows=rows, limits={"done_jobs_window_h": hours})), "Q_A") == check


@pytest.mark.parametrize(("least", "check"), [(5, "bad_jobs"), (6, None)])
def test_failed_and_closed_jobs_below_min_bad_jobs_to_skip_pq_are_forgiven(least, check) -> None:
    rows = UsageRows(history=QueueHistory(outcomes=[outcome("Q_A", n_finished=1, n_closed=5)]))
    assert left_out(decided(two_queues(), an_analysis(rows=rows, limits={"min_bad_jobs": least})), "Q_A") == check


@pytest.mark.parametrize(
    ("running", "queued", "check"),
    [(0, 40, None), (0, 41, "long_queue"), (20, 41, "long_queue"), (21, 42, None), (21, 43, "long_queue")],
)
def test_queues_with_more_than_twice_as_many_queued_as_running_jobs_are_left_out(running, queued, check) -> None:
    jobs = [JobCount("Q_A", "SCORE", "running", running), JobCount("Q_A", "SCORE", "starting", queued)]
    assert left_out(decided(two_queues(jobs=jobs), an_analysis()), "Q_A") == check


def test_a_user_with_too_many_queued_jobs_at_a_queue_gets_no_more_there() -> None:
    rows, limits = UsageRows([counted("Q_A", "activated", 8)]), {"user_queued_jobs_cap": 7}
    assert left_out(decided(two_queues(), an_analysis(rows=rows, limits=limits)), "Q_A") == "user_queue"
    assert left_out(decided(two_queues(), an_analysis(rows=rows)), "Q_A") is None, "no document has a number for it"


def test_where_no_parameter_is_set_too_many_queued_jobs_of_a_user_are_those_above_max_q_len() -> None:
    """BASE_QUEUE_LENGTH_PER_PQ 100 jobs for three users: 33 of them are alice's."""
    limits = vars(analysis_limits_from(Parameters(), vo=None, is_group=False))
    others = [counted("Q_A", "activated", 40, user="bob"), counted("Q_A", "activated", 30, user="carol")]
    for mine, check in ((33, None), (34, "analysis_stabilizer")):
        rows = UsageRows([*others, counted("Q_A", "activated", mine)])
        assert left_out(decided(two_queues(), an_analysis(rows=rows, limits=limits)), "Q_A") == check


def test_a_task_that_has_used_its_number_of_sites_stays_there() -> None:
    used = {"queues_used": frozenset({"Q_A"})}
    request = an_analysis(task=used, limits={"max_sites_of_task": 1})
    assert left_out(decided(two_queues(), request), "Q_B") == "sites_of_task"
    assert left_out(decided(two_queues(), an_analysis(task=used, limits={"max_sites_of_task": 2})), "Q_B") is None


def test_used_and_new_sites_together_are_no_more_than_the_limit_and_used_ones_and_the_best_stay() -> None:
    world = a_world(
        [a_queue(f"Q_{name}", name) for name in "ABCDE"],
        jobs=[JobCount(f"Q_{name}", "SCORE", "running", n_running) for name, n_running in
              (("A", 0), ("B", 30), ("C", 50), ("D", 40), ("E", 10))],
    )  # fmt: skip
    request = an_analysis(task={"queues_used": frozenset({"Q_A"})}, limits={"max_sites_of_task": 3})
    decision = decided(world, request)
    assert {name.partition("/")[0] for name in decision.chosen} == {"Q_A", "Q_C", "Q_D"}
    assert left_out(decision, "Q_B") == left_out(decision, "Q_E") == "sites_of_task"
