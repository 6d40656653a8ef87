"""Runtime parameters of job generation (component `jobgen`), read once for each decision."""

from __future__ import annotations

from dataclasses import dataclass

from services.job_generation.policy.outcomes import MAX_FORGIVEN_ATTEMPTS
from services.job_generation.policy.scouts import ScoutParameters
from services.job_generation.policy.throttle import ThrottleLimits
from shared.config.parameters import Parameters

COMPONENT = "jobgen"


@dataclass(frozen=True)
class GenerationParameters:
    """Names in comments; times in seconds."""

    files_of_chunk: int = 5000  # NFILES, NFILES_<gshare>
    jobs_of_chunk: int = 1000  # MAX_JOBS_PER_CHUNK
    open_chunks_of_task: int = 5  # MAX_OPEN_CHUNKS_PER_TASK
    merge_jobs_of_chunk: int = 100  # MAX_MERGE_JOBS_PER_CHUNK
    throttled_retry_s: float = 30.0  # THROTTLED_RETRY_S
    unsplittable_retry_s: float = 3600.0  # UNSPLITTABLE_RETRY_S
    forgiven_attempts: int = MAX_FORGIVEN_ATTEMPTS  # MAX_FORGIVEN_ATTEMPTS
    archive_after_s: float = 120.0  # ARCHIVE_AFTER_S
    archive_batch: int = 5000  # ARCHIVE_BATCH
    keep_specs_days: float = 7.0  # KEEP_SPECS_DAYS
    is_on: bool = True  # JOB_SUBMISSION


def generation_parameters(parameters: Parameters, gshare: str = "", vo: str | None = None) -> GenerationParameters:
    """What holds for a share."""
    default = GenerationParameters()

    def number(key: str, value: float) -> float:
        return parameters.get(COMPONENT, key, vo=vo, default=float(value))

    files = parameters.get(COMPONENT, f"NFILES_{gshare}", vo=vo, default=0) or number("NFILES", default.files_of_chunk)
    return GenerationParameters(
        files_of_chunk=max(1, min(int(files), 50_000)),
        jobs_of_chunk=max(1, min(int(number("MAX_JOBS_PER_CHUNK", default.jobs_of_chunk)), 5000)),
        open_chunks_of_task=max(1, int(number("MAX_OPEN_CHUNKS_PER_TASK", default.open_chunks_of_task))),
        merge_jobs_of_chunk=max(1, int(number("MAX_MERGE_JOBS_PER_CHUNK", default.merge_jobs_of_chunk))),
        throttled_retry_s=number("THROTTLED_RETRY_S", default.throttled_retry_s),
        unsplittable_retry_s=number("UNSPLITTABLE_RETRY_S", default.unsplittable_retry_s),
        forgiven_attempts=int(number("MAX_FORGIVEN_ATTEMPTS", default.forgiven_attempts)),
        archive_after_s=number("ARCHIVE_AFTER_S", default.archive_after_s),
        archive_batch=max(1, int(number("ARCHIVE_BATCH", default.archive_batch))),
        keep_specs_days=number("KEEP_SPECS_DAYS", default.keep_specs_days),
        is_on=parameters.get(COMPONENT, "JOB_SUBMISSION", vo=vo, default=True),
    )


def throttle_limits(parameters: Parameters, gshare: str, resource_type: str, *, analysis: bool) -> ThrottleLimits:
    """Each limit by its most specific key: `_<share>_<resource type>`, `_<share>_<MCORE|SCORE>*`, `_<share>`, plain."""
    component = "anal_job_throttler" if analysis else "prod_job_throttler"
    default = ThrottleLimits()
    family = "MCORE*" if resource_type.startswith("MCORE") else "SCORE*"
    names = (f"_{gshare}_{resource_type}", f"_{gshare}_{family}", f"_{gshare}", "")

    def limit(key: str, otherwise: int | None) -> int | None:
        for where in (component, "base_job_throttler"):
            for name in names:
                value = parameters.get(where, key + name, default=-1)
                if value >= 0:
                    return value
        return otherwise

    return ThrottleLimits(
        threshold=parameters.get(component, "THROTTLE_THRESHOLD", default=default.threshold),
        n_queue_limit=limit("NQUEUELIMIT", default.n_queue_limit),
        n_queue_cap=limit("NQUEUECAP", default.n_queue_cap),
        n_running_cap=limit("NRUNNINGCAP", default.n_running_cap),
    )


def scout_parameters(parameters: Parameters) -> ScoutParameters:
    """Component `dbproxy`, as in the field."""
    default = ScoutParameters()
    cap = parameters.get("dbproxy", "SCOUT_DISK_IO_CAP", default=0)
    return ScoutParameters(
        ram_rank=parameters.get("dbproxy", "SCOUT_RAMCOUNT_RANK", default=default.ram_rank),
        ram_margin=1 + parameters.get("dbproxy", "SCOUT_RAMCOUNT_MARGIN", default=0.0) / 100,
        ram_min_mb=parameters.get("dbproxy", "SCOUT_RAMCOUNT_MIN", default=default.ram_min_mb),
        cpu_time_rank=parameters.get("dbproxy", "SCOUT_CPUTIME_RANK", default=default.cpu_time_rank),
        disk_io_cap_kb_s=cap or None,
    )
