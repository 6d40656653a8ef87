"""What is told of measured scouts: numbers beside what was stated, although nothing fires."""

from __future__ import annotations

from typing import Any

from services.job_generation.scouts.checks import JobsToCome, Measured, misfits
from services.job_generation.scouts.parameters import ExhaustLimits
from services.job_generation.scouts.reports import ScoutReport
from services.job_generation.scouts.texts import measured_text
from shared.task.in_effect import rules_of

TASK = {"cpu_time": 10, "cpu_time_unit": "HS06sPerEvent", "ram_count": 1000, "ram_unit": "MBPerCore"}
VALUES = {"cpu_time": 25, "cpu_time_unit": "HS06sPerEvent", "ram_count": 1500, "ram_unit": "MBPerCore"}
USERS = ExhaustLimits(short_s=240, short_tenths=5, short_jobs=1000)


def measured(*walls: float, jobs: float = 2000.0, rule: dict[str, Any] | None = None, **values: Any) -> Measured:
    sample = [ScoutReport(100, 10**9, 10**9, wall, 1, 10.0, cpu_time_s=0.8 * wall) for wall in walls]
    given: dict[str, Any] = {"task": TASK, "values": VALUES, "limits": USERS, **values}
    return Measured(rules=rules_of(rule), sample=sample, expected=JobsToCome(jobs), **given)


def test_scouts_of_which_nothing_fired_tell_each_number_beside_what_was_stated_and_its_limit() -> None:
    found = measured(3600, 5400)
    assert misfits(found) == []
    assert measured_text(found) == (
        "measured: CPU time 25 HS06 s for each event (10 stated; exhausts above 2 times as much if a job ran for more "
        "than 24 h, here at most 1.5 h); memory 1500 MBPerCore (1000 stated, the limit between is 4000 MB); "
        "walltime 60 to 90 min, 0 of 2 jobs took 4 min or less (5 tenths exhaust from 1000 jobs to come); "
        "CPU efficiency 80 % (minCpuEfficiency not set); 2000 jobs are to come"
    )


def test_short_jobs_that_are_spared_for_what_later_jobs_take_say_so() -> None:
    found = measured(30, 30)
    assert misfits(found) == []
    told = "(5 tenths exhaust from 1000 jobs to come; later jobs of ten times the input take 5 min, so not here)"
    assert told in measured_text(found)
    assert told not in measured_text(measured(30, 30, rule={"nFilesPerJob": 1}))


def test_few_jobs_to_come_and_what_was_not_reported_are_said() -> None:
    assert measured_text(measured(60, jobs=20)).endswith("20 jobs are to come: with 20 or fewer nothing exhausts")
    bare = ScoutReport(None, 1, None, None, 1, 10.0)
    nothing = measured_text(Measured({}, rules_of(None), [bare], {}, JobsToCome(30), ExhaustLimits()))
    assert nothing == (
        "measured: CPU time not measured (none stated); memory not measured (none stated); walltimes not reported; "
        "CPU efficiency not reported (minCpuEfficiency not set); 30 jobs are to come"
    )
    assert measured_text(measured()) == "nothing was measured: no report"


def test_the_text_is_compact() -> None:
    assert len(measured_text(measured(30, 30, 99_000))) < 550
