"""What scouts measure that a task does not expect, with the examples and numbers of the documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.job_generation.scouts import checks as scout_checks
from services.job_generation.scouts import sizes as scout_sizes
from services.job_generation.scouts import verdicts as scouts
from services.job_generation.scouts.checks import JobsToCome, Measured, expected_jobs, longer_jobs, misfits
from services.job_generation.scouts.parameters import LABEL, ExhaustLimits, ExhaustParameters, exhaust_limits
from services.job_generation.scouts.reports import ScoutReport, scout_report
from shared.config.parameters import Parameters
from shared.task.in_effect import rules_of

OFF = ExhaustLimits()
USERS = exhaust_limits(Parameters().filled(ExhaustParameters, names={LABEL: "user"}))
GB = 1024**3


def a_report(**values: Any) -> ScoutReport:
    given: dict[str, Any] = {"n_events": 100, "input_bytes": GB, "output_bytes": GB, "walltime_s": 3600.0, "cores": 1,
                             "core_power_hs06": 10.0}  # fmt: skip
    return ScoutReport(**{**given, **values})


def found(
    *sample: ScoutReport,
    task: dict[str, Any] | None = None,
    rule: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    jobs: float = 2000.0,
    limits: ExhaustLimits = OFF,
) -> list[str]:
    measured = Measured(task or {}, rules_of(rule), sample, values or {}, JobsToCome(jobs), limits)
    return [one.reason for one in misfits(measured)]


LONG, SHORT = a_report(walltime_s=30 * 3600.0), a_report(walltime_s=180.0)


@pytest.mark.parametrize(
    ("stated", "measured", "report", "exhausts"),
    [(10, 25, LONG, True), (10, 20, LONG, False), (10, 25, a_report(walltime_s=24 * 3600.0), False),
     (None, 25, LONG, False)],
)  # fmt: skip
def test_cpu_time_exhausts_at_more_than_twice_the_stated_one_if_a_job_ran_for_more_than_a_day(
    stated: int | None, measured: int, report: ScoutReport, exhausts: bool
) -> None:
    task = {"cpu_time": stated, "cpu_time_unit": "HS06sPerEvent"}
    reasons = found(report, task=task, values={"cpu_time": measured, "cpu_time_unit": "HS06sPerEvent"})
    assert bool(reasons) is exhausts
    if exhausts:
        [reason] = reasons
        assert "25 HS06 s for each event measured, 10 stated: more than 2 times" in reason
        assert "30.0 h" in reason
    off = ExhaustLimits(cpu_time_factor=0)
    assert not found(report, task=task, values={"cpu_time": measured}, limits=off)


@pytest.mark.parametrize(
    ("unit", "stated", "measured", "exhausts"),
    [("MBPerCore", 2000, 4500, True), ("MBPerCore", 4000, 4500, False), ("MBPerCore", 2000, 4000, False),
     ("MB", 2000, 4500, False), ("MBPerCore", 0, 4500, False)],
)  # fmt: skip
def test_memory_exhausts_if_4000_mb_are_between_what_was_stated_and_measured(
    unit: str, stated: int, measured: int, exhausts: bool
) -> None:
    reasons = found(a_report(), task={"ram_count": stated, "ram_unit": unit}, values={"ram_count": measured})
    assert bool(reasons) is exhausts


def test_a_leak_is_the_mean_growth_for_each_core() -> None:
    limits = ExhaustLimits(leak_kb_s=9.0)
    assert found(a_report(cores=8, leak_kb_s=80.0), limits=limits) == [
        "memory leak: 10.0 kB/s for each core on average, 9 are allowed"
    ]
    assert not found(a_report(cores=8, leak_kb_s=80.0), a_report(cores=8, leak_kb_s=40.0), limits=limits)


@pytest.mark.parametrize(
    ("n_short", "jobs", "rule", "limits", "exhausts"),
    [
        (5, 2000, {"nFilesPerJob": 1}, USERS, True),
        (4, 2000, {"nFilesPerJob": 1}, USERS, False),
        (5, 999, {"nFilesPerJob": 1}, USERS, False),
        (5, 1000, {"nFilesPerJob": 1}, USERS, True),
        (5, 2000, {}, USERS, False),  # later jobs take ten times the input
        (5, 2000, {"useLocalIO": True}, USERS, True),  # not where input is copied
        (5, 2000, {"nFilesPerJob": 1}, OFF, False),
    ],
)
def test_short_jobs_exhaust_user_tasks_by_five_tenths_four_minutes_and_a_thousand_jobs(
    n_short: int, jobs: int, rule: dict[str, Any], limits: ExhaustLimits, exhausts: bool
) -> None:
    reasons = found(*[SHORT] * n_short, *[a_report()] * (10 - n_short), rule=rule, jobs=jobs, limits=limits)
    assert bool(reasons) is exhausts
    if exhausts:
        assert reasons == [
            f"short jobs: 5 of 10 took 4 min or less (5 tenths are too many), and {jobs} jobs are expected (1000 are)"
        ]


def test_rules_that_made_jobs_short_go_if_nothing_else_does_not_fit() -> None:
    rule = {"nFilesPerJob": 1, "nMaxFilesPerJob": 50, "mergeOutput": True}
    short = [scout_checks.Unexpected("short jobs", "")]
    assert longer_jobs(short, rule, rules_of(rule)) == {"nMaxFilesPerJob": 200, "mergeOutput": True}
    assert longer_jobs([*short, scout_checks.Unexpected("leak", "")], rule, rules_of(rule)) is None
    assert longer_jobs(short, {"mergeOutput": True}, rules_of({"mergeOutput": True})) is None
    assert longer_jobs(short, {"nEventsPerJob": 5}, rules_of({"nEventsPerJob": 5})) is None


def efficient(percent: float) -> ScoutReport:
    return a_report(cpu_time_s=36.0 * percent)


def test_the_median_efficiency_below_what_the_task_asks_for_exhausts_it() -> None:
    rule = {"minCpuEfficiency": 50}
    sample = [efficient(one) for one in (20, 40, 90)]
    assert found(*sample, rule=rule) == ["CPU efficiency: the median is 40 %, minCpuEfficiency asks for 50 %"]
    assert not found(*sample, rule={"minCpuEfficiency": 40})
    waits = ExhaustLimits(most_io_kb_s=500.0)
    assert not found(*sample, rule=rule, limits=waits, values={"io_intensity": 501}), "it waits for its data"
    assert found(*sample, rule=rule, limits=waits, values={"io_intensity": 500})


def test_many_inefficient_jobs_exhaust_a_task_of_very_many() -> None:
    limits = ExhaustLimits(low_efficiency_percent=30, inefficient_tenths=5, inefficient_jobs=1000)
    sample = [efficient(one) for one in (20, 90)]
    [reason] = found(*sample, limits=limits, jobs=1001)
    assert reason == "CPU efficiency: 1 of 2 jobs are below 30 %, and 1001 jobs are expected (more than 1000)"
    assert not found(*sample, limits=limits, jobs=1000)
    assert not found(*sample, efficient(80), limits=limits)


def test_more_than_twice_the_cpu_time_of_its_cores_is_abuse() -> None:
    assert found(a_report(cores=4, cpu_time_s=36_000.0)) == [
        "CPU abuse: 36000 s of CPU time in 3600 s on 4 cores; 28800 s are allowed"
    ]
    assert not found(a_report(cores=4, cpu_time_s=28_800.0))


def test_nothing_exhausts_a_task_of_which_no_more_than_20_jobs_are_expected() -> None:
    assert not found(a_report(cpu_time_s=36_000.0), jobs=20)
    assert found(a_report(cpu_time_s=36_000.0), jobs=21)


def test_expected_jobs_are_as_large_as_those_that_were_measured() -> None:
    assert expected_jobs(2000, 150_000, [a_report()]) == JobsToCome(2000, 1500)
    assert expected_jobs(2000, None, [a_report(n_files=2), a_report(n_files=4)]).by_files == pytest.approx(2000 / 3)


@pytest.mark.parametrize(
    ("ok", "failed", "rate", "band", "expected"),
    [
        (4, 6, 5, None, "broken"),
        (4, 6, 5, 0.4, "exhausted"),
        (4, 6, 5, 0.5, "broken"),
        (5, 5, 5, 0.4, "go"),
        (0, 10, None, 0.0, "broken"),
    ],
)
def test_below_the_success_rate_a_task_is_broken_or_in_the_band_exhausted(
    ok: int, failed: int, rate: int | None, band: float | None, expected: str
) -> None:
    verdict = scouts.judge(scouts.ScoutProgress(10, ok, failed, ok, failed), rate, min_ok_rate=band)
    names = {"go": verdict.go, "broken": verdict.give_up, "exhausted": verdict.exhaust}
    assert [name for name, holds in names.items() if holds] == [expected]


def test_half_of_the_scouts_are_not_enough_while_their_rate_is_too_low() -> None:
    progress = scouts.ScoutProgress(10, 5, 0, 5, 6, 5, 5)
    assert not scouts.judge(progress, 5).go
    assert not scouts.judge(progress, 5).give_up
    assert scouts.judge(progress, 4).go


def test_n_gb_per_job_brings_the_largest_output_near_what_the_task_asks_for() -> None:
    rules = rules_of({"tgtMaxOutputForNG": 10})
    assert scout_sizes.n_gb_per_job(rules, [a_report(input_bytes=2 * GB, largest_output_bytes=GB)], 0) == 28
    assert scout_sizes.n_gb_per_job(rules_of({}), [a_report(largest_output_bytes=GB)], 0) is None
    assert scout_sizes.n_gb_per_job(rules, [a_report(output_bytes=1, largest_output_bytes=1)], 0) == 100


def test_merge_jobs_get_the_largest_memory_and_one_and_a_half_times_the_longest_time() -> None:
    sample = [a_report(max_pss_kb=2600 * 1024.0, walltime_s=7200.0), a_report(max_pss_kb=900 * 1024.0)]
    assert scout_sizes.merge_ram_mb({}, sample) == 2600
    assert scout_sizes.merge_ram_mb({}, sample[1:]) == 2000
    assert scout_sizes.merge_ram_mb({"merge_ram_unit": "MBFixed"}, sample) is None
    assert scout_sizes.merge_walltime_s(sample) == 10_800
    assert scout_sizes.merge_walltime_s([a_report(walltime_s=3599.0)]) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_pss", -5), ("max_pss", 10**15), ("cpu_consumption_time", -1.0), ("cpu_consumption_time", 1e12)],
)
def test_a_number_that_cannot_be_counts_as_not_reported(name: str, value: float) -> None:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"report": {"job_status": "finished", name: value, "job_metrics": "leak=nan workDirSize=2048 x"},
           "n_events": 10, "n_unknown": 0, "n_bytes": 1, "n_files": 1, "core_count": 1, "start_time": begun,
           "end_time": begun + timedelta(days=200)}  # fmt: skip
    found = scout_report(row, 10.0)
    assert (found.max_pss_kb, found.cpu_time_s, found.walltime_s, found.leak_kb_s) == (None, None, None, None)
    assert found.work_dir_bytes == 2048
    assert scouts.measured({}, [found], scouts.ScoutParameters()) == {"work_disk_count": 1, "work_disk_unit": "MB"}


@pytest.mark.parametrize(
    ("given", "reported", "cores"), [(8, 4, 4), (8, -3, 8), (8, 0, 8), (8, 10**18, 8), (4096, 4096, 4096), (8, None, 8)]
)
def test_cores_that_cannot_be_are_those_that_the_job_was_given(given: int, reported: int | None, cores: int) -> None:
    row = {"report": {"max_pss": 16_000 * 1024, "core_count": reported}, "n_events": 10, "n_unknown": 0, "n_bytes": 1,
           "n_files": 1, "core_count": given, "start_time": None, "end_time": None}  # fmt: skip
    report = scout_report(row, 10.0)
    assert report.cores == cores
    assert scouts.measured({}, [report], scouts.ScoutParameters())["ram_count"] == -(-16_000 // cores)


def test_scouts_without_any_input_left_give_the_task_up_and_those_that_wait_for_tape_do_not() -> None:
    nothing = scouts.ScoutProgress(0, 0, 0, 0, 0)
    assert not scouts.judge(nothing, None).give_up
    verdict = scouts.judge(replace(nothing, all_lost=True), None)
    assert verdict.give_up and verdict.reason == "no scout can run: all input is lost"
