"""Classes of sites by waits of analysis there, and of analysis tasks by what their user already has.

Sites: hi, mid, lo. Tasks: S (express, or nearly done), A, B, C (Site and task classification).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
from scipy.special import stdtrit

HI, MID, LO = 1, 0, -1
CLASS_S, CLASS_A, CLASS_B, CLASS_C = 2, 1, 0, -1

HALF_LIFE_H = 6.0
CONFIDENCE = 0.95
HI_AT_MOST_S, LO_ABOVE_S = 3600.0, 3 * 3600.0
HI_PERCENTILE, LO_PERCENTILE = 100 / 3, 200 / 3
MAX_LONG_WAITING = 3
STARTED_WITHIN = timedelta(hours=24)


@dataclass(frozen=True)
class SiteWaits:
    """Analysis at one queue: recent starts, waits of merge jobs, and since when others wait.

    The last hour in which some started; merge jobs that started, by hour (hour, number, sum of waits, sum of squared
    waits, in seconds); since when those wait that have not started.
    """

    last_started_at: datetime | None = None
    hours: tuple[tuple[datetime, int, float, float], ...] = ()
    waiting_since: tuple[datetime, ...] = ()

    @cached_property
    def mean_and_limit_s(self) -> tuple[float, float] | None:
        """Weighted mean wait and its upper limit; None without a job that started.

        The weight of a job halves every six hours. Only ratios of weights count, so they are taken from the newest
        hour and stay right as time passes. The limit is the one-sided 95 % limit of the mean by Student's t, for as
        many jobs as the weights amount to.
        """
        if not self.hours:
            return None
        newest = max(hour for hour, *_ in self.hours)
        ages_h = np.array([(newest - hour).total_seconds() / 3600 for hour, *_ in self.hours])
        n_jobs, wait_s, wait_squared_s2 = np.array([row[1:] for row in self.hours], float).T
        factors = 0.5 ** (ages_h / HALF_LIFE_H)
        weight = float(factors @ n_jobs)
        if weight <= 0:
            return None
        mean = float(factors @ wait_s) / weight
        n_effective = weight * weight / float(factors**2 @ n_jobs)
        if n_effective <= 1:
            return mean, mean
        variance = max(0.0, float(factors @ wait_squared_s2) / weight - mean * mean) * n_effective / (n_effective - 1)
        # Student's t quantile; scipy.stats.t.ppf is the same number, a hundred times slower
        return mean, mean + float(stdtrit(n_effective - 1, CONFIDENCE)) * math.sqrt(variance / n_effective)


@dataclass(frozen=True)
class WaitMetrics:
    """Weighted mean wait, its upper limit, and the current jobs that wait longer than the mean. Seconds."""

    mean_s: float
    upper_limit_s: float
    n_long_waiting: int
    long_waiting_mean_s: float

    @property
    def ranking_s(self) -> float:
        return max(self.upper_limit_s, self.long_waiting_mean_s)


def wait_metrics(waits: SiteWaits, now: datetime) -> WaitMetrics | None:
    """What ranks a queue now; None without a job that started."""
    if waits.mean_and_limit_s is None:
        return None
    mean, upper = waits.mean_and_limit_s
    waiting_s = [(now - since).total_seconds() for since in waits.waiting_since]
    long = [wait for wait in waiting_s if wait > mean]
    return WaitMetrics(mean, upper, len(long), sum(long) / len(long) if long else 0.0)


def classify_sites(waits: Mapping[str, SiteWaits], now: datetime) -> dict[str, int]:
    """The class of each queue; one that nothing is known of is mid."""
    metrics = {queue: found for queue, one in waits.items() if (found := wait_metrics(one, now)) is not None}
    if not metrics:
        return {}
    third = float(np.percentile([one.upper_limit_s for one in metrics.values()], HI_PERCENTILE))
    two_thirds = float(np.percentile([one.ranking_s for one in metrics.values()], LO_PERCENTILE))
    classes = {}
    for queue, one in metrics.items():
        is_quick = one.ranking_s <= max(HI_AT_MOST_S, third) and one.n_long_waiting <= MAX_LONG_WAITING
        last = waits[queue].last_started_at
        if is_quick and last is not None and last >= now - STARTED_WITHIN:
            classes[queue] = HI
        else:
            classes[queue] = LO if one.ranking_s > max(LO_ABOVE_S, two_thirds) else MID
    return classes


@dataclass(frozen=True)
class TaskProgress:
    """Files of the masters, those that finished, and how many files a job takes."""

    n_files: int = 0
    n_finished: int = 0
    n_files_per_job: int = 1

    @property
    def percent(self) -> float:
        return 100.0 * self.n_finished / self.n_files if self.n_files else 0.0

    @property
    def remaining_jobs(self) -> int:
        return -(-max(0, self.n_files - self.n_finished) // max(1, self.n_files_per_job))


def classify_task(
    is_express: bool,
    slots_hi: int,
    slots_mid: int,
    progress: TaskProgress,
    *,
    slots: tuple[int, int] = (1000, 8000),
    boost_a: tuple[float, int] = (90.0, 500),
    boost_b: tuple[float, int] = (95.0, 200),
) -> int:
    """S: express, or A and B tasks nearly done; else by the user's slots in hi, and in hi and mid sites."""
    if is_express:
        return CLASS_S
    if slots_hi < slots[0]:
        found, (percent, jobs) = CLASS_A, boost_a
    elif slots_hi + slots_mid < slots[1]:
        found, (percent, jobs) = CLASS_B, boost_b
    else:
        return CLASS_C
    return CLASS_S if progress.percent >= percent and 1 <= progress.remaining_jobs <= jobs else found
