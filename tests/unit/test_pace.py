import pytest

from shared.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def arrive(pace: Pace, clock: Clock, n_times: int, every_s: float) -> float:
    last = 0.0
    for _ in range(n_times):
        clock.at += every_s
        last = pace.arrived()
    return last


def test_few_arrivals_wait_for_nobody() -> None:
    clock = Clock()
    pace = Pace(0.1, worth=2, now=clock)
    assert pace.left_s(arrive(pace, clock, 100, every_s=0.1)) == 0.0


def test_many_arrivals_wait_as_long_as_they_may() -> None:
    clock = Clock()
    pace = Pace(0.1, worth=2, now=clock)
    since = arrive(pace, clock, 30, every_s=0.04)
    assert pace.left_s(since) == pytest.approx(0.1)
    clock.at += 0.06
    assert 0.039 < pace.left_s(since) < 0.041
    clock.at += 0.06
    assert pace.left_s(since) == 0.0


def test_who_was_idle_for_a_second_begins_at_once() -> None:
    clock = Clock()
    pace = Pace(0.4, worth=2, now=clock)
    arrive(pace, clock, 50, every_s=0.01)
    clock.at += 1.1
    assert pace.left_s(pace.arrived()) == 0.0


def test_who_may_not_wait_never_does() -> None:
    clock = Clock()
    pace = Pace(0.0, worth=2, now=clock)
    assert pace.left_s(arrive(pace, clock, 100, every_s=0.0)) == 0.0


def test_after_something_that_took_long_many_arrivals_wait_longer_up_to_a_limit() -> None:
    clock = Clock()
    pace = Pace(0.1, worth=2, now=clock)
    for took_s, wait_s in ((0.01, 0.1), (0.06, 0.18), (2.0, 0.4), (0.0, 0.1)):
        pace.took(took_s)
        assert pace.left_s(arrive(pace, clock, 30, every_s=0.04)) == pytest.approx(wait_s)
    clock.at += 1.1
    pace.took(2.0)
    assert pace.left_s(pace.arrived()) == 0.0
