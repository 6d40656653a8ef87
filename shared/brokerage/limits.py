"""Numbers that operators may change (the field's gdpconfig), read once for each decision and stored with its reasons.

Names in comments are those of the parameters; defaults are the specification's, or the field's where it has none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobLimits:
    """Component `jobbroker`, and `anal_jobbroker` for analysis."""

    queued_files_of_link_cap: int = 300  # NQUEUED_SAT_CAP
    queued_files_of_nucleus_cap: int = 10_000  # NQUEUED_NUC_CAP_FOR_JOBS
    io_intensity_cutoff_kb_s: float = 200.0  # IO_INTENSITY_CUTOFF
    missing_input_cutoff_gb: float = 10.0  # SIZE_CUTOFF_TO_MOVE_INPUT
    missing_files_cutoff: int = 100  # NUM_CUTOFF_TO_MOVE_INPUT
    max_disk_io_kb_s: float = 1e10  # MAX_DISKIO_DEFAULT
    network_threshold: float = 1.7  # NW_THRESHOLD
    network_weight_multiplier: float = 1.0  # NW_WEIGHT_MULTIPLIER
    queued_jobs_floor: int = 20  # NQUEUELIMITSITE_<gshare>
    cloud_weight: float = 4.0  # CLOUD_WEIGHT: cloudconfig.weight of the documents
    inactive_after_s: float = 2 * 3600.0  # INACTIVE_AFTER_S
    no_pilot_after_s: float = 3 * 3600.0  # NO_PILOT_AFTER_S
    preassignment_of_merging_s: float = 24 * 3600.0  # MERGE_PREASSIGNMENT_S
    network_queue_importance: float = 0.5  # NW_QUEUE_IMPORTANCE
    storage_min_free_gb: float = 200.0  # STORAGE_MIN_FREE_SIZE
    io_intensity_cutoff_user_kb_s: float = 0.0  # IO_INTENSITY_CUTOFF_USER; 0: locality is never waived for low IO
    candidates: int = 10  # MAX_CANDIDATES
    retry_production_s: float = 3600.0  # RETRY_PRODUCTION_S
    retry_analysis_s: float = 1200.0  # RETRY_ANALYSIS_S


@dataclass(frozen=True)
class TaskLimits:
    """Component `taskbrokerage`."""

    disk_threshold_gb: float = 5 * 1024.0  # DISK_THRESHOLD_<gshare>, DISK_THRESHOLD (TB)
    input_size_threshold_gb: float = 1.0  # INPUT_SIZE_THRESHOLD
    input_size_fraction: float = 0.1  # INPUT_SIZE_FRACTION (%)
    input_files_threshold: int = 100  # INPUT_NUM_THRESHOLD
    input_files_fraction: float = 0.1  # INPUT_NUM_FRACTION (%)
    min_io_intensity_with_local_data_kb_s: float = 200.0  # MIN_IO_INTENSITY_WITH_LOCAL_DATA
    min_input_with_local_data_gb: float = 10_000.0  # MIN_INPUT_SIZE_WITH_LOCAL_DATA
    max_priority_with_local_data: int = 800  # MAX_TASK_PRIO_WITH_LOCAL_DATA
    data_location_check_period_s: float = 7 * 86_400.0  # DATA_LOCATION_CHECK_PERIOD (days)
    queued_files_of_nucleus_cap: int = 2000  # NQUEUED_NUC_CAP
    remaining_work_offset: float = 50.0  # rwOffset
    tape_weight: float = 0.001  # tapeWeight
    retry_s: float = 1800.0  # RETRY_S
