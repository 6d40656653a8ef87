"""JEDI, throttled jobs and tasks: more running jobs than the cap throttle what is activated."""

import pytest

from services.job_dispatch.policy.user_caps import DEFAULT_CAP, Account, AnalysisUse, HoldBack, RunningCaps, hold_back

CAPS = RunningCaps(jobs=100, cores=400)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (AnalysisUse(100, 400, 40, 0), HoldBack()),
        (AnalysisUse(101, 101, 40, 0), HoldBack(n_throttle=40, reason="101 running jobs, at most 100")),
        (AnalysisUse(90, 401, 40, 5), HoldBack(n_throttle=40, reason="401 running cores, at most 400")),
        (AnalysisUse(101, 101, 0, 7), HoldBack(n_throttle=0, reason="101 running jobs, at most 100")),
        (AnalysisUse(90, 90, 0, 40), HoldBack()),
        (AnalysisUse(85, 360, 0, 40), HoldBack()),
        (AnalysisUse(85, 85, 0, 40), HoldBack(n_activate=15, reason="85 running jobs, below 90")),
        (AnalysisUse(85, 85, 10, 40), HoldBack(n_activate=5, reason="85 running jobs, below 90")),
        (AnalysisUse(85, 85, 15, 40), HoldBack()),
        (AnalysisUse(85, 85, 0, 4), HoldBack(n_activate=4, reason="85 running jobs, below 90")),
        (AnalysisUse(85, 85, 0, 0), HoldBack()),
    ],
)
def test_jobs_are_held_back_above_the_cap_and_go_on_below_nine_tenths_of_it(
    use: AnalysisUse, expected: HoldBack
) -> None:
    assert hold_back(use, CAPS) == expected


def test_a_cap_that_is_not_set_is_ten_thousand() -> None:
    assert RunningCaps.of(0, 0) == RunningCaps(DEFAULT_CAP, DEFAULT_CAP) == RunningCaps(10_000, 10_000)
    assert RunningCaps.of(7, 0) == RunningCaps(7, 10_000)


def test_an_account_says_whose_jobs_are_meant() -> None:
    assert str(Account("alice")) == "user alice" and str(Account("", "phys-higgs")) == "working group phys-higgs"
