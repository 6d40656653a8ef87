"""Analysis: the original and the new basic weight, and the best ten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.job_brokerage.policy.analysis_weights import EPSILON_1, EPSILON_2, queue_length_weight, site_class_weight
from shared.brokerage.classes import CLASS_A, CLASS_B, CLASS_C, CLASS_S, HI, LO, MID
from shared.brokerage.load import JobCount
from tests.unit.brokerage.analysis_worlds import (
    SHARE,
    UsageRows,
    an_analysis,
    at,
    decided,
    facts_of,
    stabilized,
    two_queues,
)
from tests.unit.brokerage.worlds import a_queue, a_world


def test_the_original_weight_is_running_plus_one_over_queued_plus_one() -> None:
    jobs = [JobCount("Q_A", "SCORE", "running", 29), JobCount("Q_A", "SCORE", "activated", 2)]
    decision = decided(two_queues(jobs=jobs), an_analysis())
    assert [(one.queue, one.weight) for one in decision.candidates] == [("Q_A", 10.0), ("Q_B", 1.0)]


@pytest.mark.parametrize(
    ("task_class", "expected"),
    [
        (CLASS_S, [7, EPSILON_1, EPSILON_2]),
        (CLASS_A, [7, EPSILON_1, EPSILON_2]),
        (CLASS_B, [EPSILON_2, 7, EPSILON_1]),
        (CLASS_C, [EPSILON_2, EPSILON_1, 7]),
    ],
)
def test_the_site_class_weight_is_the_number_of_jobs_where_class_of_task_and_site_meet(task_class, expected) -> None:
    facts = facts_of(two_queues(), an_analysis())
    facts = replace(facts, site_class=np.array([HI, MID, LO]), task_class=task_class)
    assert site_class_weight(facts, 7).tolist() == expected
    other = replace(facts, task=replace(facts.task, gshare="Group Analysis"))
    assert site_class_weight(other, 7).tolist() == [7, 7, 7]


def test_the_queue_length_weight_is_the_room_less_the_jobs_part_over_all_room_less_the_jobs() -> None:
    facts = stabilized(0, 0)
    alive = np.zeros(len(facts.queued), bool)
    alive[:] = True
    mine = facts.queued_of_user.copy()
    mine[1] = 40
    weights = queue_length_weight(replace(facts, queued_of_user=mine), alive, 20)
    assert weights[0] == pytest.approx((100 - 20 / 2) / (160 - 20))
    assert weights[1] == pytest.approx((60 - 20 / 2) / (160 - 20))
    crowded = queue_length_weight(replace(facts, queued_of_user=mine), alive, 1000)
    assert crowded.tolist() == [100 / 160, 60 / 160]


def test_the_new_weight_is_used_where_the_runtime_parameter_says_so() -> None:
    decision = decided(two_queues(), an_analysis(limits={"new_weight": True}, n_jobs=10))
    assert set(decision.terms) == {"site_class", "queue_length"}
    assert len(decision.candidates) == 2 and all(one.weight > 0 for one in decision.candidates)


def test_the_best_ten_candidates_are_taken() -> None:
    world = a_world([a_queue(f"Q_{n:02}", f"S{n}") for n in range(12)])
    assert len(decided(world, an_analysis()).candidates) == 10


def test_a_system_where_nothing_ever_ran_lets_analysis_flow() -> None:
    world = two_queues()
    request = an_analysis(rows=UsageRows(share_percent={SHARE: 10.0}), inputs=at("A_DATADISK"))
    assert [one.queue for one in decided(world, request).candidates] == ["Q_A"]
