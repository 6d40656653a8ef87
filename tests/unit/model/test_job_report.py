"""A stored report is read with many others: whatever a pilot wrote into it, reading it raises nothing."""

from __future__ import annotations

import pytest

from shared.model.job_report import JobReport


def test_times_are_seconds_joined_by_bars() -> None:
    assert JobReport.from_stored({"pilot_timing": "1| 2|3600|4|5|6"}).timing_s == (1, 2, 3600, 4, 5, 6)


@pytest.mark.parametrize("text", [None, "", "1|two|3", "1||3", "\u00b2|1|1", "9" * 5000, "-1|2|3", "1.5|2|3", "|"])
def test_times_that_are_none_are_left_out(text: str | None) -> None:
    assert JobReport.from_stored({"pilot_timing": text}).timing_s == ()


def test_an_empty_report_says_nothing() -> None:
    report = JobReport.from_stored({})
    assert (report.outputs, report.memory_kb, report.out_of_memory) == ((), None, False)
