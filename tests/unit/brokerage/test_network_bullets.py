"""Network weight: the two curves, which measurement is used, and closeness where there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from services.job_brokerage.policy.network import NetworkWeight, network_weight, queued_weight, throughput_weight
from shared.brokerage.limits import JobLimits
from shared.model.link import Link
from tests.unit.brokerage.worlds import NOW, a_queue, a_request, a_world


def weighed(limits: JobLimits | None = None, **link: Any) -> NetworkWeight:
    world = a_world([a_queue("Q", "SAT")], links=[Link("SAT", "NUC", queued_at=NOW, mbps_at=NOW, **link)])
    found = network_weight(world, a_request(nucleus="NUC", limits=limits or JobLimits()))
    assert found is not None
    return found


@pytest.mark.parametrize(("queued", "weight"), [(0, 2.0), (75, 1.75), (150, 1.5), (300, 1.0), (301, 1.0)])
def test_queued_weight_is_a_line_from_2_without_queued_files_to_1_at_300(queued, weight) -> None:
    assert queued_weight(np.array([float(queued)]), 300).tolist() == [weight]


@pytest.mark.parametrize(
    ("mbps", "weight"),
    [
        (0, 1.0), (1, 1.0), (1.01, 1.1), (2, 1.1), (2.01, 1.2), (10, 1.2), (10.01, 1.3), (20, 1.3), (20.01, 1.5),
        (50, 1.5), (50.01, 1.7), (75, 1.7), (75.01, 1.8), (100, 1.8), (100.01, 1.9), (200, 1.9), (200.01, 2.0),
        (500, 2.0),
    ],
)  # fmt: skip
def test_throughput_weight_rises_in_the_steps_of_the_figure(mbps, weight) -> None:
    assert throughput_weight(np.array([float(mbps)]), np.array([np.nan])).tolist() == [weight]


def test_network_weight_is_half_of_queued_weight_plus_throughput_weight() -> None:
    """0.5 x (1.5 + 1.9)."""
    found = weighed(queued_output=150, mbps_1h=150.0)
    assert (found.queued.tolist(), found.throughput.tolist(), found.weight.tolist()) == ([1.5], [1.9], [1.7])


def test_nw_queue_importance_moves_the_half() -> None:
    """0.2 x 1.5 + 0.8 x 1.9."""
    found = weighed(JobLimits(network_queue_importance=0.2), queued_output=150, mbps_1h=150.0)
    assert found.weight.tolist() == pytest.approx([1.82])


@pytest.mark.parametrize(
    ("measured", "weight"),
    [
        ({"mbps_1h": 5.0, "mbps_1d": 60.0, "mbps_1w": 300.0, "closeness": 0}, 1.2),
        ({"mbps_1d": 60.0, "mbps_1w": 300.0, "closeness": 0}, 1.7),
        ({"mbps_1w": 300.0, "closeness": 11}, 2.0),
        ({"closeness": 0}, 2.0),
        ({"mbps_1h": 0.0, "closeness": 0}, 1.0),
    ],
)
def test_throughput_is_of_the_last_hour_else_day_else_week_else_closeness_is_used(measured, weight) -> None:
    assert weighed(**measured).throughput.tolist() == [weight]


@pytest.mark.parametrize(("closeness", "weight"), [(0, 2.0), (11, 1.0), (5, 1 + 6 / 11)])
def test_closeness_from_0_best_to_11_worst_is_used_in_a_normalized_way(closeness, weight) -> None:
    assert weighed(closeness=closeness).throughput.tolist() == pytest.approx([weight])


def test_queued_files_are_those_of_the_activity_and_not_older_than_an_hour() -> None:
    world = a_world(
        [a_queue("Q", "SAT")],
        links=[Link("SAT", "NUC", queued_output=300, queued_express=150, queued_at=NOW - timedelta(hours=1))],
    )
    for request, weight in ((a_request(nucleus="NUC"), 1.0), (a_request(nucleus="NUC", priority=1000), 1.5)):
        found = network_weight(world, request)
        assert found is not None and found.queued.tolist() == [weight]


def test_without_a_nucleus_there_is_no_network_weight() -> None:
    assert network_weight(a_world([a_queue("Q")]), a_request()) is None


@pytest.mark.parametrize(("minutes", "weight"), [(0, 1.9), (60, 1.9), (61, 1.0)])
def test_throughput_measured_more_than_an_hour_ago_leaves_the_word_to_closeness(minutes, weight) -> None:
    """150 MB/s weigh 1.9; closeness 11, the worst, 1.0."""
    link = Link("SAT", "NUC", queued_at=NOW, mbps_1h=150.0, mbps_at=NOW - timedelta(minutes=minutes), closeness=11)
    found = network_weight(a_world([a_queue("Q", "SAT")], links=[link]), a_request(nucleus="NUC"))
    assert found is not None and found.throughput.tolist() == [weight]
