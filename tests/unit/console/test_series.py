"""Jobs by state over time: every job is somewhere from when it was made on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.console.policy.series import STATES, STEPS, series_of
from services.console.showing.drawing import bar, stacked

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


def job(made: int, began: int | None = None, ended: int | None = None, status: str = "running") -> dict[str, Any]:
    def at(minute: int | None) -> str | None:
        return None if minute is None else (NOON + timedelta(minutes=minute)).isoformat()

    return {"creation_time": at(made), "start_time": at(began), "end_time": at(ended), "status": status}


def test_each_job_waits_runs_and_ends() -> None:
    jobs = [job(0, 10, 59, "finished"), job(0, 20, 40, "failed"), job(0, None, 30, "closed"), job(0)]
    series = series_of(jobs, NOON + timedelta(minutes=59))
    assert [sum(some) for some in zip(*series.numbers.values(), strict=True)] == [4] * STEPS
    first, last = ({state: series.numbers[state][place] for state in STATES} for place in (0, -1))
    assert first == {"finished": 0, "failed": 0, "closed or cancelled": 0, "with a pilot": 0, "waiting": 4}
    assert last == {"finished": 1, "failed": 1, "closed or cancelled": 1, "with a pilot": 0, "waiting": 1}


def test_the_picture_of_a_task_that_has_ended_ends_with_its_last_job() -> None:
    series = series_of([job(0, 1, 2, "finished")], NOON + timedelta(days=30))
    assert abs(series.times[-1] - (NOON + timedelta(minutes=2))) <= timedelta(seconds=1)


def test_the_table_has_a_row_where_something_changes() -> None:
    rows = series_of([job(0, 10, 20, "finished")], NOON).rows()
    assert [row["jobs"]["finished"] for row in rows] == [0, 0, 1]


def test_without_jobs_there_is_no_picture() -> None:
    series = series_of([], NOON)
    assert series.rows() == [] and stacked(series) == "" and series.most == 0


def test_a_picture_has_no_styles_of_its_own_and_says_in_words_what_it_shows() -> None:
    picture = stacked(series_of([job(0, 10, 20, "finished"), job(0)], NOON + timedelta(hours=1)))
    assert "style" not in picture and 'role="img"' in picture and "up to 2 jobs" in picture
    assert "<title>finished</title>" in picture


@pytest.mark.parametrize(("finished", "failed", "total"), [(0, 0, 0), (3, 1, 4), (5, 0, 3), (0, 0, 10)])
def test_a_bar_is_never_longer_than_its_whole(finished: int, failed: int, total: int) -> None:
    drawn = bar({"finished": finished, "failed": failed}, total)
    ends = [float(one.split('x="')[1].split('"')[0]) + float(one.split('width="')[1].split('"')[0])
            for one in drawn.split("<rect")[2:]]  # fmt: skip
    assert all(end <= 200.01 for end in ends) and "style" not in drawn
