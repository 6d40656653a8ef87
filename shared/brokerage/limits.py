"""Numbers that operators may change (the field's gdpconfig), read and stored once per decision.

Defaults are the specification's, or the field's where it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shared.config.parameter import SERVER, SHARE, Parameter, set_by

#: what `jobbroker` sets for all jobs, `anal_jobbroker` sets for analysis only
JOBS, ANALYSIS = "jobbroker", "anal_jobbroker"
TASKS = "taskbrokerage"
CLOUD = "<cloud>"
TB_GB, DAY_S = 1024.0, 86_400.0
_USER_JOBS, _USER_CORES = ("user_running_jobs", "user_queued_jobs"), ("user_running_cores", "user_queued_cores")


def _of_jobs(
    key: str,
    default: float,
    unit: str,
    means: str,
    low: float = 0.0,
    high: float | None = None,
    *,
    suffixes: tuple[str, ...] = (),
    governs: tuple[str, ...] = (),
) -> Parameter[float]:
    return Parameter(
        JOBS, key, default, unit, means, low, high, suffixes=suffixes, also_in=(ANALYSIS,), governs=governs
    )


@dataclass(frozen=True)
class JobLimits:
    """What all job brokerage compares with."""

    PER_VO: ClassVar = True

    # fmt: off
    queued_files_of_link_cap: int = set_by(
        _of_jobs("NQUEUED_SAT_CAP", 300.0, "files", "more on a link: its queues are left out", 1,
                 governs=("link_backlog",)), int)
    queued_files_of_nucleus_cap: int = set_by(
        _of_jobs("NQUEUED_NUC_CAP_FOR_JOBS", 10_000.0, "files", "the same for all links to a nucleus",
                 governs=("nucleus_backlog",)), int)
    missing_input_cutoff_gb: float = set_by(
        _of_jobs("SIZE_CUTOFF_TO_MOVE_INPUT", 10.0, "GB", "most bytes that may then be missing",
                 governs=("missing_input_size",)), float)
    missing_files_cutoff: int = set_by(
        _of_jobs("NUM_CUTOFF_TO_MOVE_INPUT", 100.0, "files", "most files that may then be missing",
                 governs=("missing_input_files",)), int)
    io_intensity_cutoff_kb_s: float = set_by(
        _of_jobs("IO_INTENSITY_CUTOFF", 200.0, "kB/s", "above: moving input is restricted",
                 governs=("missing_input_size", "missing_input_files")), float)
    max_disk_io_kb_s: float = set_by(
        _of_jobs("MAX_DISKIO_DEFAULT", 1e10, "kB/s per core", "disk IO of queues without maxdiskio",
                 governs=("disk_io",)), float)
    network_threshold: float = set_by(
        _of_jobs("NW_THRESHOLD", 1.7, "", "least network weight for urgent work", governs=("network_weight",)), float)
    network_weight_multiplier: float = set_by(
        _of_jobs("NW_WEIGHT_MULTIPLIER", 1.0, "", "factor of the network weight of urgent work",
                 governs=("network_weight",)), float)
    network_queue_importance: float = set_by(
        _of_jobs("NW_QUEUE_IMPORTANCE", 0.5, "", "part of waiting files in the network weight", high=1), float)
    queued_jobs_floor: int = set_by(
        _of_jobs("NQUEUELIMITSITE", 20.0, "jobs", "least cap of queued jobs at a queue",
                 suffixes=(SHARE,), governs=("activated_and_starting", "queued")), int)
    #: cloudconfig.weight of the documents
    cloud_weight: float = set_by(
        _of_jobs("CLOUD_WEIGHT", 4.0, "", "t1Weight of a cloud's nuclei", suffixes=(CLOUD,)), float)
    inactive_after_s: float = set_by(
        _of_jobs("INACTIVE_AFTER_S", 7200.0, "s", "without a start a queue is inactive", governs=("inactive",)), float)
    no_pilot_after_s: float = set_by(
        _of_jobs("NO_PILOT_AFTER_S", 10_800.0, "s", "without a pilot a queue is left out", governs=("pilots",)), float)
    preassignment_of_merging_s: float = set_by(
        _of_jobs("MERGE_PREASSIGNMENT_S", 86_400.0, "s", "merge jobs wait for their queue"), float)
    storage_min_free_gb: float = set_by(
        _of_jobs("STORAGE_MIN_FREE_SIZE", 200.0, "GB", "space that the output's storage must have",
                 governs=("free_space",)), float)
    #: 0: locality is never waived for low IO
    io_intensity_cutoff_user_kb_s: float = set_by(
        Parameter(ANALYSIS, "IO_INTENSITY_CUTOFF_USER", 0.0, "kB/s", "up to here analysis may ignore locality",
                  also_in=(JOBS,), governs=("input_locality",)), float)
    candidates: int = set_by(_of_jobs("MAX_CANDIDATES", 10.0, "queues", "best queues of a decision", 1), int)
    retry_production_s: float = set_by(
        _of_jobs("RETRY_PRODUCTION_S", 3600.0, "s", "until production without a queue is tried again", 1), float)
    retry_analysis_s: float = set_by(
        _of_jobs("RETRY_ANALYSIS_S", 1200.0, "s", "until analysis without a queue is tried again", 1), float)
    # fmt: on


def _of_analysis(key: str, default: float, unit: str, means: str, governs: str) -> Parameter[float]:
    return Parameter(ANALYSIS, key, default, unit, means, governs=(governs,))


def _of_stabilizer(key: str, default: float, unit: str, means: str) -> Parameter[float]:
    return _of_analysis(key, default, unit, f"Analysis Stabilizer: {means}", "analysis_stabilizer")


def _cap(key: str, unit: str, of: str, governs: tuple[str, ...]) -> Parameter[float]:
    means = f"running ones of a {of}; 0: no cap for brokerage, 10000 for dispatch"
    return Parameter("prio_mgr", key, 0.0, unit, means, app=SERVER, governs=governs, per_vo=True)


USER_JOBS_CAP = _cap("CAP_RUNNING_USER_JOBS", "jobs", "user", _USER_JOBS)
USER_CORES_CAP = _cap("CAP_RUNNING_USER_CORES", "cores", "user", _USER_CORES)
#: instead of a user's caps where the task is one of a working group
GROUP_JOBS_CAP = _cap("CAP_RUNNING_GROUP_JOBS", "jobs", "group", _USER_JOBS)
GROUP_CORES_CAP = _cap("CAP_RUNNING_GROUP_CORES", "cores", "group", _USER_CORES)


def _classes(
    key: str, default: float, unit: str, means: str, high: float | None = None, governs: tuple[str, ...] = ()
) -> Parameter[float]:
    return Parameter("analy_eval", key, default, unit, means, high=high, app=SERVER, governs=governs)


@dataclass(frozen=True)
class AnalysisLimits:
    """What analysis brokerage compares with besides; 0 for a cap: there is none."""

    PER_VO: ClassVar = True

    # fmt: off
    running_jobs_cap: int = set_by(USER_JOBS_CAP, int)
    running_cores_cap: int = set_by(USER_CORES_CAP, int)
    class_a_slots: int = set_by(
        _classes("USER_USAGE_THRESHOLD_A", 1000.0, "slots", "most slots of class A", governs=("share_usage",)), int)
    class_b_slots: int = set_by(
        _classes("USER_USAGE_THRESHOLD_B", 8000.0, "slots", "most slots of class B", governs=("share_usage",)), int)
    progress_to_boost_a: float = set_by(
        _classes("PROGRESS_TO_BOOST_A", 90.0, "%", "progress from which A becomes S", 100), float)
    progress_to_boost_b: float = set_by(
        _classes("PROGRESS_TO_BOOST_B", 95.0, "%", "progress from which B becomes S", 100), float)
    max_jobs_to_boost_a: int = set_by(
        _classes("MAX_REM_JOBS_TO_BOOST_A", 500.0, "jobs", "most remaining ones for that"), int)
    max_jobs_to_boost_b: int = set_by(
        _classes("MAX_REM_JOBS_TO_BOOST_B", 200.0, "jobs", "most remaining ones for that"), int)
    min_bad_jobs: int = set_by(
        _of_analysis("MIN_BAD_JOBS_TO_SKIP_PQ", 5.0, "jobs", "failed and closed ones that count", "bad_jobs"), int)
    done_jobs_window_h: float = set_by(
        _of_analysis("TW_DONE_JOB_STAT", 6.0, "h", "window of failed and closed jobs", "bad_jobs"), float)
    base_queue_length: float = set_by(
        _of_stabilizer("BASE_QUEUE_LENGTH_PER_PQ", 100.0, "jobs", "a short queue"), float)
    base_expected_wait_h: float = set_by(
        _of_stabilizer("BASE_EXPECTED_WAIT_HOUR_ON_PQ", 8.0, "h", "a short wait"), float)
    base_user_queue_length: float = set_by(
        _of_stabilizer("BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER", 5.0, "jobs", "of a user"), float)
    base_queue_ratio: float = set_by(
        _of_stabilizer("BASE_QUEUE_RATIO_ON_PQ", 0.05, "", "part of a user"), float)
    max_queue_running_ratio: float = set_by(
        _of_stabilizer("STATIC_MAX_QUEUE_RUNNING_RATIO", 2.0, "", "queued to running"), float)
    max_expected_wait_h: float = set_by(
        _of_stabilizer("MAX_EXPECTED_WAIT_HOUR", 12.0, "h", "longest wait"), float)
    overload_min_queue: int = set_by(
        _of_analysis("OVERLOAD_MIN_QUEUE", 20.0, "jobs", "fewer queued ones are no overload", "vp_overloaded"), int)
    overload_ratio_offset: float = set_by(
        _of_analysis("OVERLOAD_RATIO_OFFSET", 1.2, "", "queued to running from which it is one",
                     "vp_overloaded"), float)
    user_queued_jobs_cap: int = set_by(
        _of_analysis("MAX_QUEUED_JOBS_PER_PQ_USER", 0.0, "jobs", "of a user at a queue; 0: no cap", "user_queue"), int)
    max_sites_of_task: int = set_by(
        _of_analysis("MAX_SITES_OF_TASK", 10.0, "sites", "that one task may use; 0: no cap", "sites_of_task"), int)
    new_weight: bool = set_by(
        Parameter(ANALYSIS, "USE_NEW_BASIC_WEIGHT", False, "", "the new basic weight instead of the original"), bool)
    # fmt: on


def _of_tasks(
    key: str,
    default: float,
    unit: str,
    means: str,
    low: float = 0.0,
    high: float | None = None,
    *,
    suffixes: tuple[str, ...] = (),
    governs: tuple[str, ...] = (),
) -> Parameter[float]:
    return Parameter(TASKS, key, default, unit, means, low, high, suffixes=suffixes, governs=governs)


def _of_percent(percent: float) -> float:
    return percent / 100


@dataclass(frozen=True)
class TaskLimits:
    """What task brokerage compares with; disk limits in TB, fractions in percent, periods in days."""

    PER_VO: ClassVar = True

    # fmt: off
    disk_threshold_gb: float = set_by(
        _of_tasks("DISK_THRESHOLD", 5.0, "TB", "space that a nucleus must have left",
                  suffixes=(SHARE,), governs=("nucleus_space",)), TB_GB.__mul__)
    input_size_fraction: float = set_by(
        _of_tasks("INPUT_SIZE_FRACTION", 10.0, "%", "least part of the bytes there",
                  high=100, governs=("input_size",)), _of_percent)
    input_size_threshold_gb: float = set_by(
        _of_tasks("INPUT_SIZE_THRESHOLD", 1.0, "GB", "input above this should be at the nucleus",
                  governs=("input_size",)), float)
    input_files_fraction: float = set_by(
        _of_tasks("INPUT_NUM_FRACTION", 10.0, "%", "least part of the files there",
                  high=100, governs=("input_files",)), _of_percent)
    input_files_threshold: int = set_by(
        _of_tasks("INPUT_NUM_THRESHOLD", 100.0, "files", "input above this should be at the nucleus",
                  governs=("input_files",)), int)
    min_io_intensity_with_local_data_kb_s: float = set_by(
        _of_tasks("MIN_IO_INTENSITY_WITH_LOCAL_DATA", 200.0, "kB/s", "above: data must be local"), float)
    min_input_with_local_data_gb: float = set_by(
        _of_tasks("MIN_INPUT_SIZE_WITH_LOCAL_DATA", 10_000.0, "GB", "above: data must be local"), float)
    max_priority_with_local_data: int = set_by(
        _of_tasks("MAX_TASK_PRIO_WITH_LOCAL_DATA", 800.0, "priority", "from here locality is waived"), int)
    data_location_check_period_s: float = set_by(
        _of_tasks("DATA_LOCATION_CHECK_PERIOD", 7.0, "days", "assigning for longer: data may be anywhere",
                  governs=("input_size", "input_files")), DAY_S.__mul__)
    queued_files_of_nucleus_cap: int = set_by(
        _of_tasks("NQUEUED_NUC_CAP", 2000.0, "files", "more on the way to a nucleus: it is left out",
                  governs=("transfer_backlog",)), int)
    retry_s: float = set_by(
        _of_tasks("RETRY_S", 1800.0, "s", "until a task without a nucleus is looked at again", 1), float)
    #: constants of the task weight (rwOffset, tapeWeight), which no parameter sets
    remaining_work_offset: float = 50.0
    tape_weight: float = 0.001
    # fmt: on
