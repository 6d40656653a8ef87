"""Every check of every pipeline says what lifts it."""

import pytest

from services.job_brokerage.policy import adverts, analysis, example_vo, production
from services.task_brokerage.policy.filters import FILTERS
from shared.brokerage.check import Check, Tier
from shared.brokerage.lifts import LIFTED_BY, Lift

PIPELINES = (production.PIPELINE, production.CAPS, analysis.PIPELINE, example_vo.PIPELINE)
CHECKS = {
    check.name: check
    for check in (
        *(one.check for pipeline in PIPELINES for one in pipeline.filters),
        *(one.check for one in FILTERS),
        *(one for one in vars(adverts).values() if isinstance(one, Check)),
    )
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_every_check_of_every_pipeline_says_what_lifts_it(check: Check) -> None:
    assert check.name in LIFTED_BY
    assert check.lifts and len(set(check.lifts)) == len(check.lifts)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_check_that_passes_by_itself_is_lifted_by_something(check: Check) -> None:
    assert not check.temporary or check.lifts != (Lift.NOTHING,)
    assert Lift.NOTHING not in check.lifts or len(check.lifts) == 1


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_check_with_a_parameter_of_its_own_is_lifted_by_parameters(check: Check) -> None:
    assert not check.parameters or Lift.PARAMETER in check.lifts


def test_there_is_no_lift_of_a_check_that_nobody_asks() -> None:
    assert set(LIFTED_BY) == set(CHECKS)


def test_a_check_of_a_plugin_names_its_own_lifts_and_is_otherwise_lifted_by_the_grid() -> None:
    check = Check(9001, "tape_robot", Tier.CAPACITY, True, "mounts", "at most")
    assert check.lifts == (Lift.GRID,)
    assert Check(9002, "licence", Tier.POLICY, True, "used", "at most", own_lifts=(Lift.TIME,)).lifts == (Lift.TIME,)


def test_a_stored_decision_says_what_lifts_its_checks() -> None:
    assert CHECKS["queued"].describe()["lifts"] == ["statistics of the queue", "a runtime parameter"]
