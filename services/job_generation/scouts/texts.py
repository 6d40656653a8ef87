"""What was measured of jobs, beside what their task states and what would have exhausted it.

Source: PanDA, scout jobs. One compact text, kept with the decision: why nothing fired is told as well as what did.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from services.job_generation.scouts.checks import (
    FEW_JOBS,
    GROWTH_AFTER_SCOUTS,
    LONG_JOB_S,
    Measured,
    has_fixed_size,
)
from services.job_generation.scouts.reports import ScoutReport
from shared.model.units import parse_cpu_time


def measured_text(found: Measured) -> str:
    """CPU time, memory, short jobs and efficiency, measured and stated, with the limits.

    Example: "measured: CPU time 25 HS06 s for each event (10 stated; exhausts above 2 times as much if a job ran for
    more than 24 h, here at most 1.5 h); memory 1500 MBPerCore (1000 stated, the limit between is 4000 MB)".
    """
    if not found.sample:
        return "nothing was measured: no report"
    parts = [_cpu_time(found), _memory(found), _short_jobs(found), _efficiency(found.sample, found)]
    few = found.expected.most <= FEW_JOBS
    to_come = f"{found.expected.fewest:.0f} jobs are to come"
    return f"measured: {'; '.join(parts)}; {to_come}{f': with {FEW_JOBS} or fewer nothing exhausts' if few else ''}"


def _cpu_time(found: Measured) -> str:
    value, unit = found.values.get("cpu_time"), str(found.values.get("cpu_time_unit") or "HS06sPerEvent")
    measured = parse_cpu_time(None if value is None else float(value), unit)
    given = found.task.get("cpu_time")
    stated = parse_cpu_time(None if given is None else float(given), found.task.get("cpu_time_unit"))
    text = "CPU time not measured" if not measured else f"CPU time {measured:g} HS06 s for each event"
    factor, walls = found.limits.cpu_time_factor, _walls(found.sample)
    if not stated:
        return f"{text} (none stated)"
    longest = f", here at most {max(walls) / 3600:.1f} h" if walls else ""
    exhausts = f"exhausts above {factor:g} times as much if a job ran for more than {LONG_JOB_S / 3600:g} h{longest}"
    return f"{text} ({stated:g} stated; {exhausts if factor > 0 else 'never exhausts'})"


def _memory(found: Measured) -> str:
    value, stated = found.values.get("ram_count"), found.task.get("ram_count")
    unit = str(found.values.get("ram_unit") or found.task.get("ram_unit") or "MBPerCore")
    text = "memory not measured" if value is None else f"memory {value} {unit}"
    if not stated:
        return f"{text} (none stated)"
    return f"{text} ({stated:g} stated, the limit between is {found.limits.ram_mb:g} MB)"


def _short_jobs(found: Measured) -> str:
    walls, limits = _walls(found.sample), found.limits
    if not walls:
        return "walltimes not reported"
    text = f"walltime {_minutes(min(walls))} to {_minutes(max(walls))} min"
    if limits.short_s <= 0:
        return f"{text} (no limit of short jobs)"
    short = [wall for wall in walls if wall <= limits.short_s]
    scaled = GROWTH_AFTER_SCOUTS * max(short, default=0)
    spared = not has_fixed_size(found.rules) and not found.rules.copies_to_scratch and scaled > limits.short_s
    later = f"; later jobs of ten times the input take {_minutes(scaled)} min, so not here" if spared else ""
    return (
        f"{text}, {len(short)} of {len(walls)} jobs took {limits.short_s / 60:g} min or less "
        f"({limits.short_tenths:g} tenths exhaust from {limits.short_jobs:g} jobs to come{later})"
    )


def _efficiency(sample: Sequence[ScoutReport], found: Measured) -> str:
    known = [100 * one.cpu_efficiency for one in sample if one.cpu_efficiency is not None]
    wanted = found.rules.min_cpu_efficiency_percent
    text = f"CPU efficiency {median(known):.0f} %" if known else "CPU efficiency not reported"
    return f"{text} (minCpuEfficiency {'not set' if wanted is None else f'{wanted:g} %'})"


def _walls(sample: Sequence[ScoutReport]) -> list[float]:
    return [one.walltime_s for one in sample if one.walltime_s]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.2g}" if seconds < 600 else f"{seconds / 60:.0f}"
