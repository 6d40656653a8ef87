"""How many calls a caller may make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.auth.call_rates import CALLER, FAILED, CallLimits, CallRate, TokenBuckets, TooManyCalls


def test_a_burst_comes_through_and_then_the_rate() -> None:
    buckets, rate = TokenBuckets(), CallRate(2.0, 5.0)
    assert [buckets.take("a", rate, 0.0) for _ in range(10)] == [0.0] * 10
    assert buckets.take("a", rate, 0.0) == pytest.approx(0.5)
    assert buckets.take("b", rate, 0.0) == 0.0, "others have buckets of their own"
    assert buckets.take("a", rate, 0.25) == pytest.approx(0.25)
    assert buckets.take("a", rate, 0.5) == 0.0
    assert buckets.take("a", rate, 0.5) > 0.0


def test_the_caller_that_was_silent_for_longest_is_forgotten_first() -> None:
    buckets, rate = TokenBuckets(most_kept=2), CallRate(1.0, 1.0)
    assert [buckets.take(one, rate, 0.0) for one in ("a", "b")] == [0.0, 0.0]
    assert buckets.take("a", rate, 0.0) > 0.0
    assert buckets.take("c", rate, 0.0) == 0.0
    assert buckets.take("a", rate, 0.0) > 0.0 and buckets.take("b", rate, 0.0) == 0.0


@given(
    st.floats(0.1, 100.0), st.floats(1.0, 100.0), st.lists(st.floats(0.0, 10.0), min_size=1, max_size=200)
)  # fmt: skip
def test_no_more_come_through_than_the_burst_and_the_rate_allow_and_who_waits_as_told_comes_through(
    calls_per_s: float, burst_s: float, pauses: list[float]
) -> None:
    buckets, rate, now, n_through = TokenBuckets(), CallRate(calls_per_s, burst_s), 0.0, 0
    for pause in pauses:
        now += pause
        wait_s = buckets.take("a", rate, now)
        n_through += not wait_s
        assert wait_s <= 1.0 / calls_per_s + 1e-9
    assert n_through <= rate.most + now * calls_per_s + 1e-6
    assert buckets.take("a", rate, now + 1.0 / calls_per_s + 1e-6) == 0.0


def test_calls_are_counted_by_caller_and_the_text_says_which_limit_and_when_to_come_again() -> None:
    now, over = [0.0], list[str]()
    limits = CallLimits({CALLER: 2.0, FAILED: 0.0}, burst_s=5, count=over.append, clock=lambda: now[0])
    for _ in range(10):
        limits.take(CALLER, "ada")
    limits.take(CALLER, "bob")
    with pytest.raises(TooManyCalls, match="more than 2 calls/s of ada; come again in 1 s"):
        limits.take(CALLER, "ada")
    for _ in range(1000):
        limits.note(FAILED, "192.0.2.1")
        limits.check(FAILED, "192.0.2.1")
    assert over == [CALLER]
    now[0] += 0.5
    limits.take(CALLER, "ada")
