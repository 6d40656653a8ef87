"""Whose waiting analysis jobs are raised because others ran more (PanDA: priorities of user jobs).

Pure. Jobs that run and jobs that ended lately count; accounts are users, or the working groups they work for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.job_dispatch.policy.user_caps import Account
from shared.model.priorities import ANALYSIS_PRIORITY, JOBS_PER_UNIT


@dataclass(frozen=True)
class QueueUse:
    """Jobs of an account at a queue: those that run or ended lately, and those that wait for a pilot.

    `best_priority`: the highest of the waiting ones; `quota`: what an operator grants beyond others (0: nothing).
    """

    vo: str | None
    account: Account
    queue: str
    n_used: int
    n_waiting: int = 0
    best_priority: int = 0
    quota: float = 0.0


@dataclass(frozen=True)
class Raise:
    """All waiting jobs of an account at a queue get so much more, so that their own order stays."""

    use: QueueUse
    by: int
    reason: str


def balanced(uses: Sequence[QueueUse]) -> list[Raise]:
    """Who is below the average of the VO and below that of the queue is raised toward 1000.

    Target of the best waiting job = 1000 - int(used at the queue / (5 x (1 + quota))); nobody is lowered.

    Example: at one queue A used 100 and B 10, so the average is 55 everywhere. The best waiting job of B has 940; its
    target is 1000 - 10 / 5 = 998, and all waiting jobs of B there get 58 more. With a quota of 1 the target is 999.
    """
    everywhere = _sums(uses)
    averages = _averages(everywhere)
    at_queue: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for one in uses:
        at_queue[one.vo, one.queue].append(one.n_used)
    found = []
    for one in sorted(uses, key=lambda use: (use.vo or "", use.account, use.queue)):
        here = at_queue[one.vo, one.queue]
        average, average_here = averages[one.vo], sum(here) / len(here)
        total = everywhere[one.vo, one.account]
        if not one.n_waiting or total >= average or one.n_used >= average_here:
            continue
        by = target_priority(one.n_used, one.quota) - one.best_priority
        if by > 0:
            reason = (
                f"{one.account} used {total} jobs, below {average:g} on average, and {one.n_used} at {one.queue}, "
                f"below {average_here:g}: its waiting jobs there are raised by {by}"
            )
            found.append(Raise(one, by, reason))
    return found


def target_priority(n_used: int, quota: float) -> int:
    """What the best waiting job of an account is raised to: one less for each five jobs used."""
    return ANALYSIS_PRIORITY - int(n_used / (JOBS_PER_UNIT * (1 + quota)))


def _sums(uses: Iterable[QueueUse]) -> dict[tuple[str | None, Account], int]:
    found: dict[tuple[str | None, Account], int] = defaultdict(int)
    for one in uses:
        found[one.vo, one.account] += one.n_used
    return found


def _averages(sums: dict[tuple[str | None, Account], int]) -> dict[str | None, float]:
    per_vo: dict[str | None, list[int]] = defaultdict(list)
    for (vo, _), used in sums.items():
        per_vo[vo].append(used)
    return {vo: sum(used) / len(used) for vo, used in per_vo.items()}
