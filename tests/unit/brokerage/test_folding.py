from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.job_brokerage.policy.folding import (
    AUDITS_OF_BUSY_ROWS,
    Drift,
    StatisticsKey,
    changes_of,
    changes_of_shares,
    confirmed_drift,
    outcomes_of,
    seen_again,
    signs_of_life,
)
from shared.events import JobMove
from shared.events.jobs import ShareMove

AT = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
VOS = {1: "atlas", 2: "cms"}
STATES = ["defined", "activated", "sent", "running", "holding", "finished", "failed"]


def move(from_status: str | None, to_status: str, n_jobs: int = 1, queue: str = "Q", **values) -> JobMove:
    return JobMove(**{
        "task_id": 1, "queue": queue, "resource_type": "SCORE", "gshare": "MC", "user_name": "u",
        "from_status": from_status, "to_status": to_status, "n_jobs": n_jobs, "n_cores": 8 * n_jobs, **values,
    })  # fmt: skip


def test_a_move_takes_from_one_row_and_gives_to_another() -> None:
    changes = changes_of([move("activated", "sent", 3)], VOS)
    assert [(one.key[-2], one.n_jobs, one.n_cores) for one in changes] == [("activated", -3, -24), ("sent", 3, 24)]


def test_jobs_are_counted_for_the_vo_of_their_task() -> None:
    moves = [move(None, "defined", task_id, task_id=task_id) for task_id in (1, 2, 3)]
    assert [(one.key[-1], one.n_jobs) for one in changes_of(moves, VOS)] == [("", 3), ("atlas", 1), ("cms", 2)]
    fields = {"queue": "Q", "resource_type": "SCORE", "user_name": "u", "status": "activated", "n_cores": 8}
    shares = [
        ShareMove(task_id=task_id, from_gshare="MC", to_gshare="Data", n_jobs=task_id, **fields) for task_id in (1, 2)
    ]
    found = [(one.key[2], one.key[-1], one.n_jobs) for one in changes_of_shares(shares, VOS)]
    assert found == [("Data", "atlas", 1), ("Data", "cms", 2), ("MC", "atlas", -1), ("MC", "cms", -2)]


def test_an_insertion_only_adds_and_a_final_state_only_takes() -> None:
    assert [(one.key[-2], one.n_jobs) for one in changes_of([move(None, "defined", 5)], VOS)] == [("defined", 5)]
    assert [(one.key[-2], one.n_jobs) for one in changes_of([move("holding", "finished", 5)], VOS)] == [("holding", -5)]


def test_rows_are_sorted_so_that_replicas_never_wait_in_a_circle() -> None:
    moves = [move("activated", "sent", queue=name) for name in ("C", "A", "B")]
    keys = [one.key for one in changes_of(moves, VOS)]
    assert keys == sorted(keys)


@given(
    st.lists(st.tuples(st.sampled_from(STATES), st.sampled_from(STATES), st.integers(1, 9)), max_size=30), st.randoms()
)
def test_the_sum_is_the_same_in_any_order_and_in_any_portions(steps, rng) -> None:
    moves = [move(*step) for step in steps]
    whole = {one.key: (one.n_jobs, one.n_cores) for one in changes_of(moves, VOS)}
    shuffled = moves[:]
    rng.shuffle(shuffled)
    cut = rng.randint(0, len(moves))
    sums: dict = {}
    for portion in (shuffled[:cut], shuffled[cut:]):
        for one in changes_of(portion, VOS):
            jobs, cores = sums.get(one.key, (0, 0))
            sums[one.key] = (jobs + one.n_jobs, cores + one.n_cores)
    assert {key: value for key, value in sums.items() if value != (0, 0)} == whole


def test_a_dispatch_shows_a_pilot_and_a_start_shows_a_job_that_started() -> None:
    signs = signs_of_life([(None, (move("activated", "sent", queue="B"), move("sent", "running", queue="A")))], AT)
    assert signs == {"A": (None, AT), "B": (AT, None)}


def test_outcomes_are_counted_by_the_hour_and_a_job_starts_once() -> None:
    moves = [
        move("sent", "starting"),
        move("starting", "running", 2),
        move("running", "failed", 3),
        move("defined", "closed"),
    ]
    outcomes = outcomes_of([(AT, tuple(moves))], AT)
    hour = AT.replace(minute=0, second=0)
    assert outcomes == {(hour, "Q", "MC", 1): {"started": 2, "finished": 0, "failed": 3, "closed": 1, "cancelled": 0}}


def test_only_a_difference_that_two_audits_find_alike_is_corrected() -> None:
    same, moving, gone = (("Q", "S", "M", "u", state, "atlas") for state in ("running", "sent", "defined"))
    before = {same: Drift(2, 16), moving: Drift(1, 8), gone: Drift(5, 40)}
    now = seen_again(before, {same: Drift(2, 16), moving: Drift(3, 24)})
    assert [(one.key, one.n_jobs, one.n_cores) for one in confirmed_drift(before, now)] == [(same, 2, 16)]


def test_a_row_that_changes_between_audits_takes_more_of_them() -> None:
    """Two audits may each meet one event on its way."""
    key = ("Q", "S", "M", "u", "holding", "atlas")
    before: dict[StatisticsKey, Drift] = {}
    confirmed = []
    for version in range(AUDITS_OF_BUSY_ROWS):
        now = seen_again(before, {key: Drift(1, 8, version)})
        confirmed.append(len(confirmed_drift(before, now)))
        before = now
    assert confirmed == [0, 0, 0, 0, 1]
