"""Ranges of files and the ends of event-service jobs, for any numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_generation.kinds.event_service.policy.endings import ConsumerEnd, Outcome, SetState, judge, outcome_of
from services.job_generation.kinds.event_service.policy.merges import after_merge
from services.job_generation.kinds.event_service.policy.ranges import KeptRange, NewRange, cut
from services.job_generation.policy.values import Unit
from services.job_generation.specification.job_source import Undefinable

FEW = st.integers(0, 3)
STATES = st.builds(
    SetState, n_ready=FEW, n_exhausted=FEW, n_processing=FEW, n_finished=FEW, n_done=FEW, n_fatal=FEW, n_live=FEW
)
OUTCOMES = st.sampled_from(["succeeded", "pilot_failed", "lost", "killed", "unused", "too_long"])
ENDS = st.builds(ConsumerEnd, outcome=OUTCOMES, n_processed=FEW, attempt=st.integers(1, 4))


def _number(one: NewRange) -> int:
    return one.number


@given(
    n_events=st.integers(1, 300), size=st.integers(1, 50), start=st.none() | st.integers(0, 100), within=st.booleans()
)
def test_every_event_is_in_exactly_one_range(n_events: int, size: int, start: int | None, within: bool) -> None:
    unit = Unit(7, "a", n_events=n_events, start_event=start, first_event=1001)
    found = cut([unit], size, within_files=within)
    events = [event for one in found for event in range(one.first_event, one.last_event + 1)]
    assert events == list(range((start or 0) + 1, (start or 0) + n_events + 1))
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    told = found[0].first_event + found[0].offset
    assert told == ((start or 0) + 1 if within else 1001)


@given(
    n_events=st.integers(1, 300),
    before=st.integers(1, 50),
    after=st.integers(1, 50),
    start=st.integers(0, 100),
    pick=st.randoms(use_true_random=False),
)
def test_with_the_kept_ranges_of_another_width_every_event_is_in_exactly_one_range(
    n_events: int, before: int, after: int, start: int, pick: random.Random
) -> None:
    unit = Unit(7, "a", n_events=n_events, start_event=start, first_event=1001)
    whole = cut([unit], before, within_files=True)
    kept = [
        KeptRange(one.number, one.first_event, one.last_event)
        for one in pick.sample(whole, pick.randint(0, len(whole)))
    ]
    found = cut([unit], after, within_files=True, kept={7: kept})
    events = [event for one in [*kept, *found] for event in range(one.first_event, one.last_event + 1)]
    assert sorted(events) == list(range(start + 1, start + n_events + 1))
    assert all(one.last_event - one.first_event < after for one in found)
    numbers = [one.number for one in [*kept, *found]]
    assert len(set(numbers)) == len(numbers)
    if before == after:
        assert sorted(found + [one for one in whole if one.number in {k.number for k in kept}], key=_number) == whole


@pytest.mark.parametrize("n_events", [None, 0])
def test_a_file_without_events_is_refused_by_name(n_events: int | None) -> None:
    with pytest.raises(Undefinable, match="file a has no number of events"):
        cut([Unit(7, "a", n_events=n_events)], 10, within_files=False)


def test_a_file_with_too_many_ranges_is_refused_with_the_limit() -> None:
    with pytest.raises(Undefinable, match="at most 100000 are allowed"):
        cut([Unit(7, "a", n_events=10**6)], 1, within_files=False)


@given(end=ENDS, state=STATES, partial=st.booleans())
def test_a_set_waits_only_for_jobs_that_can_bring_it_on(end: ConsumerEnd, state: SetState, partial: bool) -> None:
    verdict = judge(end, state, most_attempts=3, accepts_partial=partial)
    if verdict.next == "wait":
        assert state.n_live or state.n_held
    if verdict.next == "merge":
        assert state.n_done and (partial or not state.n_lost) and not state.n_held
    if verdict.next == "retry":
        assert state.n_ready and (end.attempt < 3 or end.outcome == "unused")


def test_with_allow_partial_finish_ranges_that_failed_for_good_are_left_out_and_the_others_tried_as_ever() -> None:
    lost, end = SetState(n_done=3, n_fatal=1), ConsumerEnd("succeeded", n_processed=3, attempt=1)
    assert judge(end, lost, most_attempts=3).next == "fail"
    assert judge(end, lost, most_attempts=3, loses_some=True).next == "merge"
    assert judge(end, replace(lost, n_ready=1), most_attempts=3, loses_some=True).next == "retry"
    nothing = ConsumerEnd("succeeded", n_processed=0, attempt=1)
    assert judge(nothing, SetState(n_fatal=4), most_attempts=3, loses_some=True).next == "fail"


@given(end=ENDS, state=STATES)
def test_a_job_goes_to_merging_only_from_a_good_end_or_with_processed_ranges(end: ConsumerEnd, state: SetState) -> None:
    verdict = judge(end, state, most_attempts=3)
    if verdict.status == "merging":
        assert end.outcome == "succeeded" or (end.outcome == "lost" and end.n_processed)
        assert verdict.next in ("retry", "wait", "merge")


@pytest.mark.parametrize(
    ("status", "source", "code", "outcome"),
    [
        ("merging", None, None, "succeeded"),
        ("merging", "watchdog", 300, "lost"),
        ("failed", "watchdog", 300, "lost"),
        ("failed", "watchdog", 102, "pilot_failed"),
        ("failed", "pilot", 1305, "pilot_failed"),
        ("cancelled", "user", 100, "killed"),
        ("closed", "watchdog", 105, "unused"),
    ],
)
def test_how_a_job_ended_is_read_from_its_row(
    status: str, source: str | None, code: int | None, outcome: Outcome
) -> None:
    assert outcome_of(status, source, code) == outcome  # type: ignore[arg-type]


def test_a_job_that_the_watchdog_ended_took_too_long_if_a_pilot_had_it() -> None:
    assert outcome_of("closed", "watchdog", 102, had_pilot=True) == "too_long"
    assert outcome_of("closed", "watchdog", 102) == "unused"


@pytest.mark.parametrize(
    ("status", "code", "n_merges", "then"),
    [
        ("finished", None, 1, "finish"),
        ("closed", None, 3, "merge_again"),
        ("failed", 1305, 1, "merge_again"),
        ("failed", 1171, 2, "process_again"),
        ("failed", 1171, 3, "fail"),
        ("cancelled", 100, 3, "fail"),
    ],
)
def test_what_follows_a_merge_job(status: str, code: int | None, n_merges: int, then: str) -> None:
    assert after_merge(status, code, n_merges).next == then  # type: ignore[arg-type]
