"""What the smallest job of a chunk needs, through whole decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from shared.brokerage.request import JobRequest
from tests.unit.brokerage.worlds import LIGHT, a_queue, a_request, a_world


def left_out(request: JobRequest, **queue: Any) -> str | None:
    """The check that leaves the only queue out."""
    policy = AnalysisJobBrokerage() if request.is_analysis else ProductionJobBrokerage()
    decision = policy.decide(a_world([a_queue("Q", **queue)]), request, 1)
    exclusion = decision.exclusion("Q")
    return None if exclusion is None else exclusion[0].name


@pytest.mark.parametrize("is_analysis", [False, True])
def test_with_cpu_efficiency_0_the_base_walltime_is_judged_although_no_cpu_time_is_known(is_analysis: bool) -> None:
    needs = replace(LIGHT, cpu_time_hs06_s_per_event=None, cpu_efficiency=0.0, base_walltime_s=3600)
    request = a_request(needs=needs, is_analysis=is_analysis)
    assert left_out(request, max_time_s=3600, min_time_s=3600) is None
    assert left_out(request, max_time_s=3599) == "walltime_too_long"
    assert left_out(request, min_time_s=3601) == "walltime_too_short"
