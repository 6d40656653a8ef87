"""What the smallest job of a chunk needs, through whole decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.job_brokerage.policy.analysis import AnalysisJobBrokerage
from services.job_brokerage.policy.production import ProductionJobBrokerage
from services.job_brokerage.policy.request import job_request
from shared.brokerage.limits import JobLimits
from shared.brokerage.request import InputDataset, JobRequest
from shared.brokerage.smallest_job import (
    SecondaryInput,
    SmallestJob,
    least_secondary_files,
    most_secondary_files,
    secondary_files,
    smallest_job,
)
from shared.task.in_effect import rules_of
from tests.unit.brokerage.test_job_brokerage import ROW
from tests.unit.brokerage.worlds import LIGHT, NOW, a_queue, a_request, a_world

GB = 1024**3


def left_out(request: JobRequest, **queue: Any) -> str | None:
    """The check that leaves the only queue out."""
    policy = AnalysisJobBrokerage() if request.is_analysis else ProductionJobBrokerage()
    decision = policy.decide(a_world([a_queue("Q", **queue)]), request, 1)
    exclusion = decision.exclusion("Q")
    return None if exclusion is None else exclusion[0].name


@pytest.mark.parametrize("is_analysis", [False, True])
def test_with_cpu_efficiency_0_the_base_walltime_is_judged_although_no_cpu_time_is_known(is_analysis: bool) -> None:
    needs = replace(LIGHT, cpu_time_hs06_s_per_event=None, cpu_efficiency=0.0, base_walltime_s=3600)
    request = a_request(needs=needs, is_analysis=is_analysis)
    assert left_out(request, max_time_s=3600, min_time_s=3600) is None
    assert left_out(request, max_time_s=3599) == "walltime_too_long"
    assert left_out(request, min_time_s=3601) == "walltime_too_short"


def test_a_file_of_unknown_events_counts_as_one_event() -> None:
    assert smallest_job(rules_of({"nFilesPerJob": 50}), 100, 0, 0).n_events == 50
    row = {**ROW, "chunk_events": 0, "split_rule": {"nFilesPerJob": 5}, "cpu_time": 1000, "base_walltime": 0,
           "cpu_efficiency": 100, "core_count": 1}  # fmt: skip
    request = job_request({**row, "nucleus": None}, (), JobLimits(), NOW)
    assert left_out(request, max_time_s=500) is None, "5 files, 1000 HS06 s each, at 10 HS06"
    assert left_out(request, max_time_s=499) == "walltime_too_long"


@pytest.mark.parametrize(
    ("attributes", "n_bytes"),
    [
        ({}, 200), ({"ratio": 2}, 400), ({"ratio": 0.25}, 100), ({"nFilesPerJob": 3}, 300), ({"nosplit": True}, 5000),
        ({"eventRatio": 5}, 500), ({"repeat": True}, 200),
    ],
)  # fmt: skip
def test_secondary_files_of_the_smallest_job_follow_by_their_ratio(attributes: dict[str, Any], n_bytes: int) -> None:
    secondary = SecondaryInput(50, 5000, 1000, attributes)  # 100 bytes and 20 events each
    job = smallest_job(rules_of({"nFilesPerJob": 2}), 10, 100, 700, secondary=[secondary])
    assert job == SmallestJob(2, 20, 140 + n_bytes)


@pytest.mark.parametrize(
    "attributes",
    [{"repeat": True}, {"reusable": True}, {"nosplit": True}, {"repeat": True, "nFilesPerJob": 9},
     {"repeat": True, "eventRatio": 2}],
)  # fmt: skip
def test_a_file_that_is_repeated_counts_once_within_a_job(attributes: dict[str, Any]) -> None:
    """50 files of 1 GB with 2 repeated files of 20 GB in all: 70 GB."""
    secondary = SecondaryInput(2, 20 * GB, 20, attributes)
    job = smallest_job(rules_of({"nFilesPerJob": 50}), 50, 5000, 50 * GB, secondary=[secondary])
    assert job.input_bytes == 70 * GB


def test_the_disk_usage_is_that_of_all_input_of_a_job() -> None:
    row = {**ROW, "nucleus": None, "core_count": 1, "split_rule": {"nFilesPerJob": 1}, "chunk_bytes": 10 * GB}
    master, secondary = InputDataset("m", 10, 10 * GB), SecondaryInput(10, 20 * GB, 0, {"ratio": 2})
    request = job_request(row, (master,), JobLimits(), NOW, secondary=(secondary,))
    assert request.job.input_bytes == 5 * GB
    assert left_out(request, max_work_dir_mb=5 * 1024 + 512) == "scratch_disk"
    assert left_out(request, max_work_dir_mb=5 * 1024 + 513) is None


def test_each_range_of_events_reads_its_whole_file() -> None:
    row = {**ROW, "chunk_files": 100, "chunk_events": 5000, "chunk_bytes": 8 * GB, "split_rule": {"nEventsPerJob": 50}}
    job = job_request(row, (InputDataset("m", 2, 8 * GB),), JobLimits(), NOW).job
    assert job == SmallestJob(1, 50, 4 * GB)


MERGE: dict[str, Any] = {
    **ROW, "kind": "merge", "chunk_queue": "HERE", "chunk_files": 200, "chunk_events": 20_000, "chunk_bytes": 11 * GB,
}  # fmt: skip
UNMERGED = (InputDataset("output", 100, 10 * GB), InputDataset("log", 100, 1 * GB))


@pytest.mark.parametrize(
    ("rules", "n_files", "n_bytes"),
    [
        ({"nFilesPerJob": 1}, 100, 5.5 * GB),  # 50 jobs' outputs, and 5 GB of the largest
        ({"nFilesPerMergeJob": 10, "nFilesPerJob": 1}, 20, 1.1 * GB),
        ({"nMaxFilesPerMergeJob": 20}, 40, 2.2 * GB),
        ({"nGBPerMergeJob": 1}, 20, 1.1 * GB),
        ({"nEventsPerMergeJob": 500}, 10, 0.55 * GB),
        ({"onSiteMerging": True, "nFilesPerMergeJob": 10}, 100, 5.5 * GB),
        ({"onSiteMerging": True, "nGBPerMergeJob": 20}, 200, 11 * GB),
    ],
)
def test_a_merge_job_is_as_large_as_the_rules_of_merging_make_it(
    rules: dict[str, Any], n_files: int, n_bytes: float
) -> None:
    job = job_request({**MERGE, "split_rule": rules}, UNMERGED, JobLimits(), NOW).job
    assert job.n_files == n_files and job.input_bytes == pytest.approx(n_bytes, abs=1)


def test_the_scratch_disk_of_a_merge_job_holds_its_input_and_as_much_output() -> None:
    row = {**MERGE, "split_rule": {"nFilesPerMergeJob": 10}, "chunk_queue": "Q", "nucleus": None}
    request = job_request(row, UNMERGED, JobLimits(), NOW)  # 1.1 GB
    assert left_out(request, max_work_dir_mb=2252) == "scratch_disk"
    assert left_out(request, max_work_dir_mb=2254) is None


def test_merge_jobs_whose_queue_was_left_out_for_24_hours_still_go_where_the_task_may_go() -> None:
    row = {**MERGE, "site": "A,B", "merge_waiting_since": NOW - timedelta(hours=24)}
    request = job_request(row, UNMERGED, JobLimits(), NOW)
    assert request.preassigned == ("A", "B")
    assert request.inputs == UNMERGED, "they have to be moved there"
    waiting = {**row, "merge_waiting_since": NOW - timedelta(hours=23)}
    assert job_request(waiting, UNMERGED, JobLimits(), NOW).preassigned == ("HERE",)


@given(
    st.integers(1, 500).map(lambda percent: percent / 100), st.integers(0, 60), st.one_of(st.none(), st.integers(1, 9))
)
def test_the_check_of_a_ratio_asks_for_what_jobs_take_and_never_for_more_than_is_fed(
    ratio: float, n_units: int, units_per_job: int | None
) -> None:
    jobs = (
        [n_units]
        if units_per_job is None
        else [min(units_per_job, n_units - at) for at in range(0, n_units, units_per_job)]
    )
    taken = sum(secondary_files({"ratio": ratio}, 10**6, units, 0, int) for units in jobs)
    least = least_secondary_files(ratio, n_units, units_per_job)
    assert least == taken <= most_secondary_files(ratio, n_units)
