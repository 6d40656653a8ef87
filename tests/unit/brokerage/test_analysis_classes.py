"""Classes of sites and of analysis tasks, and what is due to a share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from scipy.stats import t as student_t

from services.job_brokerage.policy.request import TaskHistory, analysis_input
from shared.brokerage.classes import (
    CLASS_A,
    CLASS_B,
    CLASS_C,
    CLASS_S,
    HI,
    LO,
    MID,
    SiteWaits,
    TaskProgress,
    classify_sites,
    classify_task,
    wait_metrics,
)
from shared.brokerage.usage import OwnUsage, Usage, percent_of_shares
from shared.config.parameters import Parameters
from tests.unit.brokerage.analysis_worlds import SHARE
from tests.unit.brokerage.worlds import NOW


def test_the_upper_limit_of_the_mean_wait_is_students_t_with_weights_that_halve_in_six_hours() -> None:
    waits = SiteWaits(hours=((NOW, 4, 400.0, 60_000.0), (NOW - timedelta(hours=6), 4, 800.0, 180_000.0)))
    found = wait_metrics(waits, NOW)
    weight, n_effective = 4 + 2, 36 / 5
    mean = (400 + 400) / weight
    variance = ((60_000 + 90_000) / weight - mean**2) * n_effective / (n_effective - 1)
    expected = mean + student_t.ppf(0.95, n_effective - 1) * (variance / n_effective) ** 0.5
    assert found is not None and found.mean_s == pytest.approx(mean)
    assert found.upper_limit_s == pytest.approx(expected)


def test_sites_are_hi_mid_or_lo_by_their_ranking_time() -> None:
    def waits(mean_s: float, started: bool = True, waiting: tuple[float, ...] = ()) -> SiteWaits:
        return SiteWaits(
            NOW if started else None,
            ((NOW, 10, 10 * mean_s, 10 * mean_s**2),),
            tuple(NOW - timedelta(seconds=one) for one in waiting),
        )

    found = classify_sites(
        {
            "QUICK": waits(100), "IDLE": waits(100, started=False), "JAMMED": waits(100, waiting=(5000.0,) * 4),
            "SLOW": waits(9000), "SLOWER": waits(50_000), "UNKNOWN": SiteWaits(NOW),
        },
        NOW,
    )  # fmt: skip
    assert found == {"QUICK": HI, "IDLE": MID, "JAMMED": MID, "SLOW": MID, "SLOWER": LO}


def steady(mean_s: float, *, started_hours_ago: float = 0, waiting_s: tuple[float, ...] = ()) -> SiteWaits:
    """Ten jobs that all waited as long, and some that still wait."""
    return SiteWaits(
        NOW - timedelta(hours=started_hours_ago),
        ((NOW, 10, 10 * mean_s, 10 * mean_s**2),),
        tuple(NOW - timedelta(seconds=one) for one in waiting_s),
    )


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (steady(3600), HI), (steady(3601), MID),  # one hour, the 33rd percentile is lower
        (steady(100, waiting_s=(3600.0,) * 3), HI), (steady(100, waiting_s=(3600.0,) * 4), MID),
        (steady(100, waiting_s=(3601.0,)), MID), (steady(100, waiting_s=(100.0,) * 9), HI),  # not longer than the mean
        (steady(100, started_hours_ago=24), HI), (steady(100, started_hours_ago=24.1), MID),
        (steady(10_800), MID), (steady(10_801), LO),  # three hours, the 67th percentile is lower
    ],
)  # fmt: skip
def test_hi_sites_wait_an_hour_at_most_and_lo_sites_more_than_three(waits, expected) -> None:
    others = {f"OTHER{n}": steady(10) for n in range(9)}
    assert classify_sites({"Q": waits, **others}, NOW)["Q"] == expected


@pytest.mark.parametrize(
    ("express", "hi", "mid", "progress", "expected"),
    [
        (True, 9000, 9000, TaskProgress(), CLASS_S),
        (False, 999, 9000, TaskProgress(100, 0), CLASS_A),
        (False, 999, 0, TaskProgress(100, 90), CLASS_S),
        (False, 999, 0, TaskProgress(10_000, 9000), CLASS_A),  # more than 500 jobs remain
        (False, 1000, 6999, TaskProgress(100, 94), CLASS_B),
        (False, 1000, 6999, TaskProgress(100, 95), CLASS_S),
        (False, 1000, 7000, TaskProgress(100, 99), CLASS_C),
    ],
)
def test_tasks_are_s_a_b_or_c_by_share_progress_and_the_users_slots(express, hi, mid, progress, expected) -> None:
    assert classify_task(express, hi, mid, progress) == expected


def test_what_is_due_to_a_share_is_its_part_of_its_parents_part() -> None:
    shares = [("Analysis", 20.0, None), ("Production", 80.0, None), (SHARE, 3.0, "Analysis"), ("ART", 1.0, "Analysis")]
    assert percent_of_shares(shares)[SHARE] == 15.0


def test_files_of_a_job_that_another_split_rule_disables_do_not_count_for_what_remains() -> None:
    row: dict[str, Any] = dict.fromkeys(("task_id", "user_name", "working_group", "gshare", "vo"))
    for rule, expected in (({"nFilesPerJob": 10}, 10), ({"nFilesPerJob": 10, "nEventsPerJob": 5}, 100)):
        given = analysis_input({**row, "split_rule": rule}, TaskHistory(100, 0), Usage(), OwnUsage(), Parameters())
        assert given.task.progress.remaining_jobs == expected
