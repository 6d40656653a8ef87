"""Runtime parameters about scouts, by the label of tasks (component `dbproxy`, as in the field)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from shared.config.parameter import Parameter, set_by

DBPROXY, LABEL = "dbproxy", "<label>"
USER_LABEL = "user"
NOT_SET = -1.0


def _unless_negative(value: float) -> float | None:
    return None if value < 0 else value


def _by_label(key: str, unit: str, means: str, default: float = NOT_SET, of_users: float | None = None) -> Any:
    own = () if of_users is None else ((USER_LABEL, of_users),)
    parameter = Parameter(DBPROXY, key, default, unit, means, low=NOT_SET, suffixes=(LABEL,), own_defaults=own)
    return set_by(parameter, _unless_negative)


@dataclass(frozen=True)
class ExhaustParameters:
    """None: not set. Minutes, tenths of jobs, jobs, percent, kB/s."""

    PER_VO: ClassVar = True

    # JEDI: of user tasks 5 tenths, 4 minutes, 1000 jobs
    short_min: float | None = _by_label(
        "SCOUT_SHORT_EXECTIME", "min", "a payload that ran that long is short; 0: none is", 0.0, of_users=4.0
    )
    short_tenths: float | None = _by_label(
        "SCOUT_NUM_SHORT", "", "so many tenths of short jobs exhaust a task", 5.0, of_users=5.0
    )
    short_jobs: float | None = _by_label(
        "SCOUT_THR_SHORT", "jobs", "expected jobs from which short ones matter", 1000.0, of_users=1000.0
    )
    changes_rules: bool = set_by(
        Parameter(DBPROXY, "SCOUT_CHANGE_SR", False, "", "rules that make jobs short go", suffixes=(LABEL,)),
        bool,
    )
    low_efficiency_percent: float = set_by(
        Parameter(DBPROXY, "SCOUT_LOW_CPU_EFFICIENCY", 0.0, "%", "a job below it is inefficient", suffixes=(LABEL,)),
        float,
    )
    inefficient_tenths: float | None = _by_label("SCOUT_NUM_CPU_INEFFICIENT", "", "so many tenths of inefficient jobs")
    inefficient_jobs: float | None = _by_label(
        "SCOUT_THR_CPU_INEFFICIENT", "jobs", "expected jobs that make them matter"
    )
    most_io_kb_s: float | None = _by_label(
        "SCOUT_MAX_IO_INTENSITY_FOR_EXHAUSTED", "kB/s", "above it jobs wait for data and may be inefficient"
    )
    min_ok_rate: float | None = _by_label(
        "SCOUT_MIN_OK_RATE_EXHAUSTED", "", "rate of scouts from which a task is exhausted and not broken"
    )
    leak_kb_s: float | None = _by_label("SCOUT_MEM_LEAK_PER_CORE", "kB/s", "growth of memory that exhausts a task")
    cpu_time_factor: float = set_by(
        Parameter(DBPROXY, "SCOUT_WRONG_CPUTIME_THRESHOLD", 2.0, "", "measured to stated CPU time; 0: off"), float
    )
    ram_gb: float = set_by(
        Parameter(DBPROXY, "RAM_THR_EXAUSTED", 4.0, "GB", "between stated and measured memory for each core"), float
    )


@dataclass(frozen=True)
class ExhaustLimits:
    """What holds for one task; `short_s` 0: no job is short."""

    short_s: float = 0.0
    short_tenths: float = 0.0
    short_jobs: float = 0.0
    changes_rules: bool = False
    low_efficiency_percent: float = 0.0
    inefficient_tenths: float | None = None
    inefficient_jobs: float | None = None
    most_io_kb_s: float | None = None
    min_ok_rate: float | None = None
    leak_kb_s: float | None = None
    cpu_time_factor: float = 2.0
    ram_mb: float = 4000.0
    cpu_time_rank: float = 95.0


def exhaust_limits(given: ExhaustParameters, cpu_time_rank: float = 95.0) -> ExhaustLimits:
    """The limits of a task; a negative number set for short jobs is no limit: no job is short."""
    short = (given.short_min, given.short_tenths, given.short_jobs)
    return ExhaustLimits(
        short_s=0.0 if None in short else 60 * (given.short_min or 0),
        short_tenths=given.short_tenths or 0,
        short_jobs=given.short_jobs or 0,
        changes_rules=given.changes_rules,
        low_efficiency_percent=given.low_efficiency_percent,
        inefficient_tenths=given.inefficient_tenths,
        inefficient_jobs=given.inefficient_jobs,
        most_io_kb_s=given.most_io_kb_s,
        min_ok_rate=None if given.min_ok_rate is None else min(1.0, given.min_ok_rate),
        leak_kb_s=given.leak_kb_s,
        cpu_time_factor=given.cpu_time_factor,
        ram_mb=given.ram_gb * 1000,
        cpu_time_rank=cpu_time_rank,
    )
