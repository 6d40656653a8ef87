"""Whose waiting jobs are raised: below both averages, toward 1000, never lowered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_dispatch.policy.priority_balance import QueueUse, balanced, target_priority
from services.job_dispatch.policy.user_caps import Account


def use(
    name: str, n_used: int, n_waiting: int = 0, best: int = 0, queue: str = "Q1", vo: str = "demo", quota: float = 0
) -> QueueUse:
    return QueueUse(vo, Account(name), queue, n_used, n_waiting, best, quota)


@pytest.mark.parametrize(
    ("n_used", "quota", "expected"),
    [(0, 0, 1000), (4, 0, 1000), (5, 0, 999), (10, 0, 998), (10, 1, 999), (100, 3, 995)],
)
def test_five_jobs_are_one_point_and_a_quota_makes_them_more(n_used: int, quota: float, expected: int) -> None:
    assert target_priority(n_used, quota) == expected


def raised(*uses: QueueUse) -> dict[str, int]:
    return {one.use.account.user_name: one.by for one in balanced(uses)}


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ((use("a", 100, 9, 900), use("b", 10, 3, 940)), {"b": 58}),  # the worked example
        ((use("a", 100, 9, 900), use("b", 10, 3, 940, quota=1)), {"b": 59}),
        ((use("a", 100), use("b", 10, 3, 1500)), {}),  # a super user's task is higher already
        ((use("a", 100), use("b", 10, 0, 0)), {}),  # nothing waits
        ((use("a", 50, 3, 900), use("b", 50, 3, 900)), {}),  # nobody is below
        # below the average of the queue, not below that of all queues
        ((use("a", 100), use("b", 10, 3, 900), use("b", 300, 0, 0, "Q2")), {}),
        # below the average of all queues, not below that of the queue
        ((use("a", 1000, queue="Q2"), use("b", 10, 3, 900), use("c", 5, queue="Q1")), {}),
        # each VO has averages of its own
        ((use("a", 100), use("b", 10, 3, 900, vo="cms")), {}),
    ],
)
def test_who_is_below_both_averages_is_raised(uses: tuple[QueueUse, ...], expected: dict[str, int]) -> None:
    assert raised(*uses) == expected


def test_the_reason_has_the_numbers() -> None:
    [one] = balanced([use("a", 100), use("b", 10, 3, 940)])
    assert one.reason == (
        "user b used 10 jobs, below 55 on average, and 10 at Q1, below 55: its waiting jobs there are raised by 58"
    )


some_uses = st.lists(
    st.builds(
        use, st.sampled_from("abc"), st.integers(0, 300), st.integers(0, 50), st.integers(-500, 1500),
        st.sampled_from(["Q1", "Q2"]), st.just("demo"), st.floats(0, 5),
    ),
    max_size=8,
    unique_by=lambda one: (one.account, one.queue),
)  # fmt: skip


@given(some_uses)
def test_nobody_is_lowered_and_nobody_is_raised_above_1000(uses: list[QueueUse]) -> None:
    for one in balanced(uses):
        assert one.by > 0 and one.use.best_priority + one.by <= 1000 and one.use.n_waiting > 0
