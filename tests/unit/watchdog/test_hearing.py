"""Only time in which reports could be heard, and were, counts as silence of a pilot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.timeouts.hearing import EVERYBODY, USUAL, Hearing, Minutes, OutageTimes, Wait, heard, look_back, turn_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SECOND = timedelta(seconds=1)
LOOK = 6 * HOUR
TIMES = OutageTimes(outage=3 * MINUTE, given_up=6 * HOUR, grace=40 * MINUTE, spread=30 * MINUTE)


def minutes(*heard_in: tuple[int, int], outage: timedelta = MINUTE) -> Minutes:
    """Heard in each minute from so many before now to so many before now."""
    found = sorted(NOW - k * MINUTE for begins, ends in heard_in for k in range(ends, begins + 1))
    waits = tuple(
        Wait(a, b, sum(a - USUAL <= one <= a for one in found)) for a, b in pairwise((*found, NOW)) if b - a > outage
    )
    return Minutes(found[0], waits)


def hearing(*heard_in: tuple[int, int], of_vo: Minutes | None = None) -> Hearing:
    found = {EVERYBODY: minutes(*heard_in)} | ({"atlas": of_vo} if of_vo else {})
    known = heard(found, NOW, LOOK, TIMES)
    return known.get("atlas", known[EVERYBODY])


def test_without_any_record_all_time_counts() -> None:
    known = heard({}, NOW, LOOK, TIMES)[EVERYBODY]
    assert known.before(2 * HOUR) == NOW - 2 * HOUR and known.turn(999) is None


def test_minutes_without_a_dispatcher_do_not_count_however_short() -> None:
    known = hearing((400, 60), (58, 30), (28, 0))
    assert known.deaf == ((NOW - 59 * MINUTE, NOW - 58 * MINUTE), (NOW - 29 * MINUTE, NOW - 28 * MINUTE))
    assert known.before(2 * HOUR) == NOW - 122 * MINUTE
    assert known.silent_for(NOW - 2 * HOUR) == 118 * MINUTE
    assert known.grace_until is None, "two minutes are no outage"


def test_an_outage_of_hours_costs_no_pilot_its_time_and_gives_all_the_time_to_come_back() -> None:
    known = hearing((700, 300), (30, 0))
    assert known.is_in_grace and known.grace_until == NOW + 10 * MINUTE
    assert known.before(2 * HOUR) == NOW - 299 * MINUTE - (4 * HOUR - 30 * MINUTE), "only twice the limit is certain"
    later = hearing((710, 310), (40, 0))
    assert not later.is_in_grace and later.before(2 * HOUR) == NOW - 309 * MINUTE - (2 * HOUR - 40 * MINUTE)


def test_while_no_dispatcher_is_there_nobody_grows_more_silent() -> None:
    at_once, after = hearing((700, 0)), hearing((700, 300))
    assert after.silent_for(NOW - 10 * HOUR) == 5 * HOUR + MINUTE
    assert at_once.silent_for(NOW - 10 * HOUR) == 10 * HOUR


def test_before_the_first_minute_that_is_known_nobody_could_be_heard() -> None:
    known = hearing((90, 0))
    assert known.before(2 * HOUR) < NOW - 1000 * HOUR and known.before(HOUR) == NOW - HOUR
    assert hearing((400, 0)).before(8 * HOUR) == NOW - 8 * HOUR


def test_many_short_outages_do_not_add_up_to_a_lost_pilot_and_do_not_keep_one_for_ever() -> None:
    known = hearing(*((k + 15, k) for k in range(0, 700, 20)))  # 4 minutes of 20 are missing
    assert known.is_in_grace and known.silent_for(NOW - 2 * HOUR) == 96 * MINUTE
    assert NOW - 310 * MINUTE < known.before(2 * HOUR) < NOW - 290 * MINUTE


def test_a_vo_of_which_nobody_is_heard_although_others_are_is_cut_off() -> None:
    known = hearing((400, 0), of_vo=minutes((400, 90), (10, 0), outage=TIMES.outage))
    assert known.deaf == ((NOW - 89 * MINUTE, NOW - 10 * MINUTE),)
    assert known.is_in_grace and known.silent_for(NOW - 2 * HOUR) == 41 * MINUTE
    assert hearing((400, 0)).deaf == ()


def test_a_broken_road_counts_again_when_it_is_given_up() -> None:
    of_vo = minutes((1000, 500), outage=TIMES.outage)
    known = heard({EVERYBODY: minutes((1100, 0)), "atlas": of_vo}, NOW, 17 * HOUR, TIMES)["atlas"]
    assert known.deaf == ((NOW - 499 * MINUTE, NOW - 139 * MINUTE),)
    assert known.before(2 * HOUR) == NOW - 2 * HOUR


@pytest.mark.parametrize("minutes_ago", [90, 300, 359, 600])
def test_however_long_a_vo_is_cut_off_that_does_not_make_it_usual(minutes_ago: int) -> None:
    of_vo = minutes((minutes_ago + 400, minutes_ago), outage=TIMES.outage)
    known = heard({EVERYBODY: minutes((1100, 0)), "atlas": of_vo}, NOW, look_back(2 * HOUR, TIMES), TIMES)["atlas"]
    begins = NOW - (minutes_ago - 1) * MINUTE
    assert known.deaf == ((begins, min(NOW, begins + 6 * HOUR)),)


def test_a_vo_with_few_pilots_is_not_cut_off_because_they_seldom_report() -> None:
    seldom = minutes(*((k, k) for k in range(35, 400, 30)), outage=TIMES.outage)
    assert hearing((400, 0), of_vo=seldom).deaf == ()
    assert hearing((400, 0), of_vo=minutes((130, 130), outage=TIMES.outage)).deaf == ()


@pytest.mark.parametrize(("after", "part"), [(0, 0), (15, 500), (29, 966), (30, 1000), (300, 1000), (-1, 1000)])
def test_after_a_grace_what_is_lost_ends_little_by_little(after: int, part: int) -> None:
    grace_until = NOW - after * MINUTE
    turns = [turn_of(job_id, grace_until, 30 * MINUTE, NOW) for job_id in range(1000)]
    assert turns.count(None) == part
    assert all(NOW < turn <= grace_until + 30 * MINUTE for turn in turns if turn is not None)
    assert turn_of(7, NOW, timedelta(), NOW) is None and turn_of(7, None, 30 * MINUTE, NOW) is None


def test_limits_of_many_hours_are_looked_at_for_as_long() -> None:
    spread = 70 * MINUTE
    assert look_back(2 * HOUR, TIMES) == 16 * HOUR + spread and look_back(10 * HOUR, TIMES) == 32 * HOUR + spread
    assert look_back(2 * HOUR, replace(TIMES, given_up=24 * HOUR)) == 34 * HOUR + spread
    assert look_back(1000 * HOUR, TIMES) == timedelta(days=7)


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=8),
    st.integers(1, 300),
)
def test_whoever_was_heard_before_the_cut_has_been_silent_for_the_limit(
    runs: list[tuple[int, int]], limit_min: int
) -> None:
    known = hearing((1000, 400), *((begins + length, begins) for begins, length in runs))
    limit = limit_min * MINUTE
    cut = known.before(limit)
    wanted = limit * 2 if known.is_in_grace else limit
    assert known.silent_for(cut - SECOND) >= wanted - SECOND
    assert known.silent_for(cut + SECOND) <= wanted
