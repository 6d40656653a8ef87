"""When a task ends: between the times that two rates of its jobs give."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.task_definition.tasks.policy.pace import range_line, range_of_end

NOW, HOUR = datetime(2026, 3, 1, 12, 30, tzinfo=UTC), timedelta(hours=1)
FILES = {"total": 1000, "finished": 390, "failed": 10}
#: since 11:00: 15 jobs of 10 units
PACE: dict[str, Any] = {
    "now": NOW, "start_time": NOW - 4 * HOUR, "lately_since": NOW - 1.5 * HOUR, "n_jobs_lately": 15,
    "units_per_job": 10.0,
}  # fmt: skip


def test_the_rate_over_its_life_and_that_of_the_last_hour_or_two_say_between_which_times() -> None:
    end = range_of_end("running", FILES, PACE)
    assert end is not None and (end["earliest_at"], end["latest_at"]) == (NOW + 6 * HOUR, NOW + 6 * HOUR)
    end = range_of_end("running", FILES, PACE | {"n_jobs_lately": 30})
    assert end is not None and (end["earliest_at"], end["latest_at"]) == (NOW + 3 * HOUR, NOW + 6 * HOUR)
    assert range_line(end) == (
        "ends between 2026-03-01 15:30:00 UTC and 2026-03-01 18:30:00 UTC: 600 of 1000 units are left; 100 ended in an"
        " hour, lately 200"
    )


def test_where_nothing_finished_lately_nobody_can_say_when_at_the_latest() -> None:
    end = range_of_end("pending", FILES, PACE | {"n_jobs_lately": 0})
    assert end is not None and end["latest_at"] is None
    assert "and a time that nobody can say: 600" in range_line(end)


@pytest.mark.parametrize(
    ("status", "files", "pace"),
    [
        ("paused", {}, {}), ("done", {}, {}), ("running", {}, {"start_time": None}),
        ("running", {"finished": 0, "failed": 0}, {}), ("running", {"finished": 990}, {}),
        ("running", {"total": 0}, {}),
    ],
)  # fmt: skip
def test_of_what_does_not_go_on_or_has_ended_nothing_yet_no_time_is_told(
    status: Any, files: dict[str, Any], pace: dict[str, Any]
) -> None:
    assert range_of_end(status, FILES | files, PACE | pace) is None
