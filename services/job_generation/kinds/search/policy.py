"""What is to be done for a search of hyper-parameter points: jobs that evaluate them, or its end.

Source: PanDA client, phpo: the task is over when all points are evaluated or maxNumJobs jobs were made; JEDI,
Post-processor: an HPO task with a point that was evaluated is finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.job_generation.kinds.event_service.policy.endings import SetState
from shared.model.points import PointSearch


@dataclass(frozen=True)
class SearchStep:
    """`n_jobs`: to make. The reason is for people."""

    then: Literal["make", "wait", "finish", "fail"]
    reason: str
    n_jobs: int = 0


def next_step(search: PointSearch, state: SetState, *, most_jobs: int, n_at_once: int, makes_jobs: bool) -> SearchStep:
    """The next step of a search; `state.n_live` of its jobs have not ended, `n_at_once` may run at a time.

    A job is made for each point that nobody evaluates, beside jobs that look for one. Nobody waits for a point that an
    optimiser has not added: jobs are made when it is there.

    Example: 3 points ready, 4 jobs at once, 1 of these has a point: 3 more. With 2 of at most 6 jobs left: 2 more.
    """
    n_open = state.n_ready + search.next_points(state.n_ready + state.n_processing)
    left = most_jobs - search.n_jobs
    if state.n_live and (not makes_jobs or left <= 0 or not n_open):
        return SearchStep("wait", f"{state.n_live} jobs have not ended")
    if not makes_jobs:
        return _end(search, state, "no more jobs are made of the task")
    if n_open and left <= 0:
        return _end(search, state, f"{search.n_jobs} jobs were made, and no more are allowed (maxNumJobs)")
    if n_open:
        looking = max(0, state.n_live - state.n_processing)
        n_jobs = max(0, min(n_at_once - state.n_live, n_open - looking, left))
        why = f"{n_open} points are to be evaluated, {state.n_live} jobs have not ended"
        return SearchStep("make" if n_jobs else "wait", why, n_jobs)
    if search.n_to_come and search.per_generation is None and left > 0:
        return SearchStep("wait", f"waits for up to {search.n_to_come} more points of its optimiser")
    return _end(search, state, "every point is at its end")


def _end(search: PointSearch, state: SetState, why: str) -> SearchStep:
    n_evaluated = state.n_done + state.n_finished
    told = f"{n_evaluated} of {search.n_points} points were evaluated: {why}"
    return SearchStep("finish" if n_evaluated else "fail", told)
