"""The hours of a day, and their picture."""

from __future__ import annotations

from datetime import UTC, datetime

from services.console.policy.series import hours_of
from services.console.showing.drawing import day, line

NOW = datetime(2026, 11, 27, 10, 30, tzinfo=UTC)
ROW = {"hour": "2026-11-27T09:00:00+00:00", "n_started": 4, "n_finished": 3, "n_failed": 1, "n_stopped": 0}


def test_each_of_the_last_24_hours_is_there_with_zeros_where_nothing_happened() -> None:
    hours = hours_of([ROW], NOW)
    assert len(hours) == 24 and hours[-1]["hour"] == "2026-11-27T10:00:00+00:00"
    assert hours[-2] == ROW and sum(one["n_started"] for one in hours) == 4


def test_a_day_is_drawn_with_its_numbers_in_words() -> None:
    picture = str(day(hours_of([ROW], NOW)))
    assert 'aria-label="The last 24 hours: 3 finished, 1 failed, 0 stopped"' in picture
    assert picture.count('class="fill-good"') == 1 and "style" not in picture
    assert str(day(hours_of([], NOW))) == ""


def test_a_line_goes_from_zero_to_the_most_and_says_what_it_shows() -> None:
    picture = str(line([0.0, 50.0, 25.0], "MC <b> over a day"))
    assert 'points="0.0,24.00 120.0,0.00 240.0,12.00"' in picture and "MC &lt;b&gt; over a day" in picture
    assert str(line([0.0, 0.0], "nothing")) == "" and str(line([1.0], "one")) == ""
