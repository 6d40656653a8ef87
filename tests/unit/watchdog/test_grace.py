"""After an outage of our own nothing expires before pilots could speak again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.watchdog.policy.grace import Grace, LastRun, grace
from shared.timeouts.hearing import OutageTimes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
#: after an outage of 3 minutes a pilot has its interval of 30 and 10 to try again
TIMES = OutageTimes(outage=3 * MINUTE, grace=40 * MINUTE)


def decide(last: LastRun, seen: datetime | None = None) -> Grace | None:
    return grace(last, NOW, period=MINUTE, heartbeat_interval=30 * MINUTE, dispatcher_seen_at=seen, times=TIMES)


def test_a_run_in_time_expires_what_is_due() -> None:
    assert decide(LastRun(NOW - MINUTE)) is None
    assert decide(LastRun(NOW - 15 * MINUTE)) is None


def test_a_run_that_comes_half_a_heartbeat_interval_late_waits_a_full_one_and_the_time_to_try_again() -> None:
    decision = decide(LastRun(NOW - 15 * MINUTE - timedelta(seconds=1)))
    assert decision is not None and decision.until == NOW + 40 * MINUTE and "901 s ago" in decision.reason


def test_a_slow_watch_is_no_outage_before_it_missed_three_turns() -> None:
    def slow(gap: timedelta) -> Grace | None:
        return grace(
            LastRun(NOW - gap),
            NOW,
            period=10 * MINUTE,
            heartbeat_interval=30 * MINUTE,
            dispatcher_seen_at=None,
            times=TIMES,
        )

    assert slow(29 * MINUTE) is None and slow(31 * MINUTE) is not None


def test_the_first_run_ever_waits_too() -> None:
    assert decide(LastRun(None)) is not None


def test_a_clock_that_went_back_is_an_outage() -> None:
    assert decide(LastRun(NOW + 60 * MINUTE)) is not None


def test_the_wait_goes_on_until_its_end_and_then_stops() -> None:
    assert decide(LastRun(NOW - MINUTE, NOW + 5 * MINUTE, "outage")) == Grace(NOW + 5 * MINUTE, "outage")
    assert decide(LastRun(NOW - MINUTE, NOW, "outage")) is None


def test_nothing_ends_while_no_dispatcher_is_there_for_as_long_as_is_set() -> None:
    decision = decide(LastRun(NOW - MINUTE), NOW - 3 * MINUTE - timedelta(seconds=1))
    assert decision == Grace(NOW, "no dispatcher is there to receive heartbeats")
    assert decide(LastRun(NOW - MINUTE), NOW - 3 * MINUTE) is None


def test_a_grace_that_lasts_is_not_cut_short_by_a_dispatcher_that_is_away() -> None:
    decision = decide(LastRun(NOW - MINUTE, NOW + 5 * MINUTE, "outage"), NOW - 9 * MINUTE)
    assert decision is not None and decision.until == NOW + 5 * MINUTE
