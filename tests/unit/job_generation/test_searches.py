"""Hyper-parameter optimisation: when points follow, and when jobs are made for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.kinds.event_service.policy.endings import SetState
from services.job_generation.kinds.search.policy import next_step
from shared.model.points import PointSearch


@pytest.mark.parametrize(
    ("n_points", "n_unevaluated", "of_generation", "low", "expected"),
    [
        (0, 0, 4, 0, 4),
        (4, 1, 4, 0, 0),
        (4, 0, 4, 0, 4),
        (8, 0, 4, 0, 2),
        (10, 0, 4, 0, 0),
        (0, 0, 4, 1, 3),
        (3, 1, 4, 1, 0),
        (3, 1, 4, 2, 2),
        (0, 0, None, 0, 0),
        (12, 0, 4, 0, 0),
    ],
)
def test_a_generation_follows_when_too_few_points_are_left(
    n_points: int, n_unevaluated: int, of_generation: int | None, low: int, expected: int
) -> None:
    assert PointSearch(10, n_points, of_generation, low).next_points(n_unevaluated) == expected


@pytest.mark.parametrize(
    ("state", "n_jobs", "expected"),
    [
        (SetState(n_ready=3, n_processing=1, n_live=1), 1, ("make", 3)),
        (SetState(n_ready=3, n_processing=1, n_live=1), 4, ("make", 2)),
        (SetState(n_ready=3, n_live=2), 2, ("make", 1)),
        (SetState(n_ready=1, n_live=2), 2, ("wait", 0)),
        (SetState(n_processing=2, n_live=2), 2, ("wait", 0)),
        (SetState(n_ready=9, n_processing=4, n_live=4), 4, ("wait", 0)),
        (SetState(n_ready=3, n_done=1), 6, ("finish", 0)),
        (SetState(n_ready=3), 6, ("fail", 0)),
        (SetState(n_exhausted=4), 2, ("fail", 0)),
        (SetState(n_exhausted=3, n_done=1), 2, ("finish", 0)),
    ],
)
def test_a_job_is_made_for_each_point_that_nobody_evaluates(
    state: SetState, n_jobs: int, expected: tuple[str, int]
) -> None:
    step = next_step(PointSearch(4, 4, 4, n_jobs=n_jobs), state, most_jobs=6, n_at_once=4, makes_jobs=True)
    assert (step.then, step.n_jobs) == expected


def test_a_search_whose_optimiser_may_add_points_waits_without_jobs() -> None:
    search = PointSearch(10, 3, None, n_jobs=2)
    step = next_step(search, SetState(n_done=3), most_jobs=9, n_at_once=4, makes_jobs=True)
    assert (step.then, step.reason) == ("wait", "waits for up to 7 more points of its optimiser")
    assert next_step(search, SetState(n_done=3), most_jobs=9, n_at_once=4, makes_jobs=False).then == "finish"


_N = st.integers(0, 8)
_GENERATIONS = st.one_of(st.none(), st.integers(1, 8))


@given(_N, _N, _N, _N, _N, st.integers(1, 8), st.integers(1, 20), _N, _GENERATIONS, st.booleans())
def test_no_step_makes_too_many_jobs_or_ends_a_search_that_has_some(
    ready: int, processing: int, done: int, exhausted: int, live: int, at_once: int, most: int, made: int,
    of_generation: int | None, makes: bool,
) -> None:  # fmt: skip
    there = ready + processing + done + exhausted
    state = SetState(ready, exhausted, processing, 0, done, 0, live)
    search = PointSearch(there + 3, there, of_generation, n_jobs=made)
    step = next_step(search, state, most_jobs=most, n_at_once=at_once, makes_jobs=makes)
    assert step.n_jobs <= max(0, at_once - live) and made + step.n_jobs <= max(most, made)
    assert (step.n_jobs > 0) == (step.then == "make") and (makes or not step.n_jobs)
    if step.then in ("finish", "fail"):
        assert not live and (step.then == "finish") == (done > 0)
    elif step.then == "wait" and not live:
        assert of_generation is None and search.n_to_come and not ready
