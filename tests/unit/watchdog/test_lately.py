"""A search of what changed asks about all now and then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from services.watchdog.acting import ALL_EVERY, EVER, OVERLAP, Lately

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_it_asks_about_all_at_first_and_about_what_changed_since_then() -> None:
    lately = Lately()
    assert lately.since("by rates", NOW) == EVER
    lately.looked("by rates", NOW)
    assert lately.since("by rates", NOW + timedelta(minutes=5)) == NOW - OVERLAP


def test_it_asks_about_all_where_it_judges_otherwise_than_before() -> None:
    lately = Lately()
    lately.looked("by rates", NOW)
    assert lately.since("by other rates", NOW + timedelta(minutes=5)) == EVER


def test_it_asks_about_all_once_an_hour_however_often_it_looks() -> None:
    lately, asked = Lately(), list[datetime]()
    for minutes in range(0, 126, 5):
        now = NOW + timedelta(minutes=minutes)
        if lately.since("by rates", now) == EVER:
            asked.append(now)
        lately.looked("by rates", now)
    assert asked == [NOW, NOW + ALL_EVERY + timedelta(minutes=5)]
