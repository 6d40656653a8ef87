"""Runtime parameters have the names, units and defaults of the documents, and each reaches the number it is about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from services.job_brokerage.parameters import analysis_limits_from, limits_from
from services.task_brokerage.parameters import limits_from as task_limits_from
from shared.brokerage.limits import AnalysisLimits, JobLimits, TaskLimits
from shared.config.parameters import Parameters

TB_GB = 1024.0


def changed(default: Any, found: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if value != asdict(default)[name]}


@pytest.mark.parametrize(
    ("key", "field", "default"),
    [
        ("NQUEUED_SAT_CAP", "queued_files_of_link_cap", 300),
        ("NQUEUED_NUC_CAP_FOR_JOBS", "queued_files_of_nucleus_cap", 10_000),
        ("IO_INTENSITY_CUTOFF", "io_intensity_cutoff_kb_s", 200),
        ("SIZE_CUTOFF_TO_MOVE_INPUT", "missing_input_cutoff_gb", 10),
        ("NUM_CUTOFF_TO_MOVE_INPUT", "missing_files_cutoff", 100),
        ("MAX_DISKIO_DEFAULT", "max_disk_io_kb_s", 1e10),
        ("NW_THRESHOLD", "network_threshold", 1.7),
        ("NW_WEIGHT_MULTIPLIER", "network_weight_multiplier", 1),
        ("NW_QUEUE_IMPORTANCE", "network_queue_importance", 0.5),
        ("NQUEUELIMITSITE_MC", "queued_jobs_floor", 20),
        ("STORAGE_MIN_FREE_SIZE", "storage_min_free_gb", 200),
    ],
)
def test_a_parameter_of_production_job_brokerage_has_the_documents_name_and_default(key, field, default) -> None:
    assert asdict(JobLimits())[field] == default
    parameters, value = Parameters(), 77 if default >= 1 else 0.75
    parameters.set_for_test("jobbroker", key, value)
    found = limits_from(parameters, vo="demo", is_analysis=False, gshare="MC")
    assert changed(JobLimits(), found) == {field: value}


def test_io_intensity_cutoff_user_is_of_analysis_and_has_no_default() -> None:
    assert JobLimits().io_intensity_cutoff_user_kb_s == 0
    parameters = Parameters()
    parameters.set_for_test("anal_jobbroker", "IO_INTENSITY_CUTOFF_USER", 150)
    assert limits_from(parameters, vo=None, is_analysis=True).io_intensity_cutoff_user_kb_s == 150
    assert limits_from(parameters, vo=None, is_analysis=False).io_intensity_cutoff_user_kb_s == 0


@pytest.mark.parametrize(
    ("component", "key", "field", "default"),
    [
        ("prio_mgr", "CAP_RUNNING_USER_JOBS", "running_jobs_cap", 0),
        ("prio_mgr", "CAP_RUNNING_USER_CORES", "running_cores_cap", 0),
        ("analy_eval", "USER_USAGE_THRESHOLD_A", "class_a_slots", 1000),
        ("analy_eval", "USER_USAGE_THRESHOLD_B", "class_b_slots", 8000),
        ("anal_jobbroker", "TW_DONE_JOB_STAT", "done_jobs_window_h", 6),
        ("anal_jobbroker", "MIN_BAD_JOBS_TO_SKIP_PQ", "min_bad_jobs", 5),
        ("anal_jobbroker", "BASE_QUEUE_LENGTH_PER_PQ", "base_queue_length", 100),
        ("anal_jobbroker", "BASE_EXPECTED_WAIT_HOUR_ON_PQ", "base_expected_wait_h", 8),
        ("anal_jobbroker", "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", "base_user_queue_length", 5),
        ("anal_jobbroker", "BASE_QUEUE_RATIO_ON_PQ", "base_queue_ratio", 0.05),
        ("anal_jobbroker", "STATIC_MAX_QUEUE_RUNNING_RATIO", "max_queue_running_ratio", 2),
        ("anal_jobbroker", "MAX_EXPECTED_WAIT_HOUR", "max_expected_wait_h", 12),
        ("anal_jobbroker", "OVERLOAD_MIN_QUEUE", "overload_min_queue", 20),
        ("anal_jobbroker", "OVERLOAD_RATIO_OFFSET", "overload_ratio_offset", 1.2),
    ],
)
def test_a_parameter_of_analysis_job_brokerage_has_the_documents_name_and_default(
    component, key, field, default
) -> None:
    assert asdict(AnalysisLimits())[field] == default
    parameters = Parameters()
    app = "jedi" if component == "anal_jobbroker" else "pandaserver"
    parameters.set_for_test(component, key, 77, app=app)
    assert changed(AnalysisLimits(), analysis_limits_from(parameters, vo="demo", is_group=False)) == {field: 77}


@pytest.mark.parametrize(
    ("key", "field", "default", "scale"),
    [
        ("DISK_THRESHOLD_MC", "disk_threshold_gb", 5 * TB_GB, TB_GB),
        ("INPUT_SIZE_THRESHOLD", "input_size_threshold_gb", 1, 1),
        ("INPUT_SIZE_FRACTION", "input_size_fraction", 0.1, 0.01),
        ("INPUT_NUM_THRESHOLD", "input_files_threshold", 100, 1),
        ("INPUT_NUM_FRACTION", "input_files_fraction", 0.1, 0.01),
        ("MIN_IO_INTENSITY_WITH_LOCAL_DATA", "min_io_intensity_with_local_data_kb_s", 200, 1),
        ("MIN_INPUT_SIZE_WITH_LOCAL_DATA", "min_input_with_local_data_gb", 10_000, 1),
        ("MAX_TASK_PRIO_WITH_LOCAL_DATA", "max_priority_with_local_data", 800, 1),
        ("DATA_LOCATION_CHECK_PERIOD", "data_location_check_period_s", 7 * 86_400, 86_400),
        ("NQUEUED_NUC_CAP", "queued_files_of_nucleus_cap", 2000, 1),
    ],
)
def test_a_parameter_of_task_brokerage_has_the_documents_name_unit_and_default(key, field, default, scale) -> None:
    assert asdict(TaskLimits())[field] == default
    parameters = Parameters()
    parameters.set_for_test("taskbrokerage", key, 77)
    found = task_limits_from(parameters, vo="demo", gshare="MC")
    assert changed(TaskLimits(), found) == {field: pytest.approx(77 * scale)}


def test_constants_of_the_task_weight_are_those_of_the_document() -> None:
    assert (TaskLimits().remaining_work_offset, TaskLimits().tape_weight) == (50, 0.001)


@pytest.mark.parametrize(
    ("key", "value", "field", "default"),
    [
        (
            "MAX_QUEUED_JOBS_PER_PQ_USER",
            7,
            "user_queued_jobs_cap",
            0,
        ),  # no document has a number: none unless it is set
        ("MAX_SITES_OF_TASK", 7, "max_sites_of_task", 10),
        ("USE_NEW_BASIC_WEIGHT", True, "new_weight", False),  # the original one is used for now
    ],
)
def test_what_the_document_leaves_open_for_analysis_is_a_parameter(key, value, field, default) -> None:
    assert asdict(AnalysisLimits())[field] == default
    parameters = Parameters()
    parameters.set_for_test("anal_jobbroker", key, value)
    assert changed(AnalysisLimits(), analysis_limits_from(parameters, vo="demo", is_group=False)) == {field: value}


@pytest.mark.parametrize(
    ("key", "field", "default"),
    [
        ("INACTIVE_AFTER_S", "inactive_after_s", 2 * 3600),
        ("NO_PILOT_AFTER_S", "no_pilot_after_s", 3 * 3600),
        ("MERGE_PREASSIGNMENT_S", "preassignment_of_merging_s", 24 * 3600),
        ("MAX_CANDIDATES", "candidates", 10),
        ("RETRY_PRODUCTION_S", "retry_production_s", 3600),
        ("RETRY_ANALYSIS_S", "retry_analysis_s", 20 * 60),
    ],
)
def test_numbers_that_the_document_has_as_constants_are_defaults(key, field, default) -> None:
    assert asdict(JobLimits())[field] == default
    parameters = Parameters()
    parameters.set_for_test("jobbroker", key, 77)
    assert changed(JobLimits(), limits_from(parameters, vo=None, is_analysis=False)) == {field: 77}


def test_a_task_without_nucleus_waits_half_an_hour_by_default() -> None:
    assert TaskLimits().retry_s == 30 * 60
