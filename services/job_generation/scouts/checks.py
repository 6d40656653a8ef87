"""What scouts measure that a task's definition does not expect: its owner decides.

Sources: PanDA, scout jobs; JEDI, Transition of task status. Each check gives its reason with the numbers compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from services.job_generation.scouts.parameters import ExhaustLimits
from services.job_generation.scouts.reports import ScoutReport
from shared.model.units import parse_cpu_time
from shared.task.in_effect import SplitRules
from shared.task.rules import MAX_FILES_PER_JOB
from shared.task.stored import with_rules

#: with no more new jobs than that a mistake costs little
FEW_JOBS = 20
LONG_JOB_S = 24 * 3600.0
#: after the scouts jobs may take ten times the input of scouts (500 000 instead of 50 000 MB)
GROWTH_AFTER_SCOUTS = 10.0
ABUSE_FACTOR = 2.0


@dataclass(frozen=True)
class JobsToCome:
    """How many new jobs the rest of the input makes, by files and by events; None: events are not known."""

    by_files: float
    by_events: float | None = None

    @property
    def fewest(self) -> float:
        """The smaller of the two numbers."""
        return self.by_files if self.by_events is None else min(self.by_files, self.by_events)

    @property
    def most(self) -> float:
        """The larger of the two numbers."""
        return self.by_files if self.by_events is None else max(self.by_files, self.by_events)


def expected_jobs(n_files: int, n_events: int | None, sample: Sequence[ScoutReport]) -> JobsToCome:
    """What is left, in jobs as large as those that were measured.

    Example: scouts of one file and 100 events each, 2000 files and 150 000 events left: 2000 jobs by files, 1500 by
    events.
    """
    files_each = fmean([max(1, one.n_files) for one in sample]) if sample else 1.0
    known = [one.n_events for one in sample if one.n_events]
    by_events = n_events / fmean(known) if n_events is not None and known else None
    return JobsToCome(n_files / files_each, by_events)


@dataclass(frozen=True)
class Measured:
    """What the checks look at: the task as it was before, and what was measured of its jobs."""

    task: Mapping[str, Any]
    rules: SplitRules
    sample: Sequence[ScoutReport]
    values: Mapping[str, int | str]
    expected: JobsToCome
    limits: ExhaustLimits


@dataclass(frozen=True)
class Unexpected:
    """One thing that does not fit, in words and numbers."""

    check: str
    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def misfits(found: Measured) -> list[Unexpected]:
    """Everything that does not fit; nothing where no more than 20 new jobs are expected."""
    if found.expected.most <= FEW_JOBS or not found.sample:
        return []
    return [one for check in CHECKS if (one := check(found)) is not None]


def cpu_time(found: Measured) -> Unexpected | None:
    """Measured > 2 x stated, and the job at the percentile ran for more than 24 h.

    Example: 10 HS06 s for each event were stated, 25 measured, and the slowest job ran for 30 h.
    """
    limits, stated = found.limits, parse_cpu_time(_number(found.task, "cpu_time"), found.task.get("cpu_time_unit"))
    unit = str(found.values.get("cpu_time_unit") or "HS06sPerEvent")
    measured = parse_cpu_time(_number(found.values, "cpu_time"), unit)
    if limits.cpu_time_factor <= 0 or not stated or not measured or measured <= limits.cpu_time_factor * stated:
        return None
    walls = sorted(one.walltime_s for one in found.sample if one.walltime_s)
    if not walls or _at_rank(walls, limits.cpu_time_rank) <= LONG_JOB_S:
        return None
    wall_h = _at_rank(walls, limits.cpu_time_rank) / 3600
    reason = (
        f"cpuTime: {measured:g} HS06 s for each event measured, {stated:g} stated: more than "
        f"{limits.cpu_time_factor:g} times as much, and a job ran for {wall_h:.1f} h"
    )
    return Unexpected("cpuTime", reason, {"measured": measured, "stated": stated, "walltime_h": wall_h})


def memory(found: Measured) -> Unexpected | None:
    """Stated < 4000 MB for each core < measured; a task that states none has nothing to compare with.

    Example: 2000 MB were stated and 4500 measured: other queues have to be found than those that were thought of.
    """
    unit = str(found.task.get("ram_unit") or "MBPerCore")
    stated, measured = _number(found.task, "ram_count") or 0.0, _number(found.values, "ram_count")
    limit = found.limits.ram_mb
    if not unit.startswith("MBPerCore") or measured is None or not 0 < stated < limit < measured:
        return None
    reason = f"ramCount: {measured:g} MB for each core measured, {stated:g} stated; the limit between them is {limit:g}"
    return Unexpected("ramCount", reason, {"measured": measured, "stated": stated, "limit": limit})


def memory_leak(found: Measured) -> Unexpected | None:
    """The mean growth of memory for each core is above the limit.

    Example: jobs of 8 cores that grow by 80 kB/s leak 10 kB/s for each core.
    """
    leaks = [one.leak_kb_s / max(1, one.cores) for one in found.sample if one.leak_kb_s]
    if found.limits.leak_kb_s is None or not leaks or fmean(leaks) <= found.limits.leak_kb_s:
        return None
    reason = f"memory leak: {fmean(leaks):.1f} kB/s for each core on average, {found.limits.leak_kb_s:g} are allowed"
    return Unexpected(
        "leak", reason, {"leak_kb_s": fmean(leaks), "limit": found.limits.leak_kb_s, "n_jobs": len(leaks)}
    )


def short_jobs(found: Measured) -> Unexpected | None:
    """So many tenths of the jobs were short, and very many more would come.

    Short is SCOUT_SHORT_EXECTIME minutes or less. A task whose rules do not fix the size of its jobs is spared if the
    longest short job would take more than that once jobs take ten times the input of scouts, unless input is copied.

    Example, the limits of user tasks (5 tenths, 4 min, 1000 jobs): of ten scouts five took 3 min, and 2000 jobs are
    expected.
    """
    limits, fewest = found.limits, found.expected.fewest
    times = [one.walltime_s for one in found.sample if one.walltime_s]
    short = [wall for wall in times if wall <= limits.short_s]
    if limits.short_s <= 0 or not times or len(short) < limits.short_tenths / 10 * len(times) or not short:
        return None
    if fewest < limits.short_jobs:
        return None
    scaled = max(short) * GROWTH_AFTER_SCOUTS
    if not has_fixed_size(found.rules) and not found.rules.copies_to_scratch and scaled > limits.short_s:
        return None
    reason = (
        f"short jobs: {len(short)} of {len(times)} took {limits.short_s / 60:g} min or less "
        f"({limits.short_tenths:g} tenths are too many), and {fewest:.0f} jobs are expected ({limits.short_jobs:g} are)"
    )
    return Unexpected("short jobs", reason, {"short": len(short), "n_jobs": len(times), "expected": fewest})


def low_cpu_efficiency(found: Measured) -> Unexpected | None:
    """The median is below minCpuEfficiency; or many jobs are below a limit and very many would come.

    Many: SCOUT_NUM_CPU_INEFFICIENT tenths. Not where the work reads and writes more than a limit: it waits for its data
    then.

    Example: minCpuEfficiency 50, efficiencies of 20, 40 and 90 %: the median of 40 % is too low.
    """
    known = [100 * one.cpu_efficiency for one in found.sample if one.cpu_efficiency is not None]
    limits, wanted = found.limits, found.rules.min_cpu_efficiency_percent
    io, most_io = _number(found.values, "io_intensity"), limits.most_io_kb_s
    if not known or (most_io is not None and io is not None and io > most_io):
        return None
    middle = median(known)
    if wanted is not None and middle < wanted:
        reason = f"CPU efficiency: the median is {middle:.0f} %, minCpuEfficiency asks for {wanted} %"
        return Unexpected("CPU efficiency", reason, {"median": middle, "wanted": wanted, "n_jobs": len(known)})
    low = sum(one < limits.low_efficiency_percent for one in known)
    many = limits.inefficient_tenths is not None and low >= limits.inefficient_tenths / 10 * len(known) and low > 0
    if not many or limits.inefficient_jobs is None or found.expected.most <= limits.inefficient_jobs:
        return None
    reason = (
        f"CPU efficiency: {low} of {len(known)} jobs are below {limits.low_efficiency_percent:g} %, "
        f"and {found.expected.most:.0f} jobs are expected (more than {limits.inefficient_jobs:g})"
    )
    return Unexpected("CPU efficiency", reason, {"low": low, "n_jobs": len(known), "expected": found.expected.most})


def cpu_abuse(found: Measured) -> Unexpected | None:
    """CPU time > 2 x wall x cores of the largest job, that is the one with most CPU time.

    Example: 10 h of CPU time in 1 h on 4 cores: the payload starts more threads than it has cores.
    """
    largest = max((one for one in found.sample if one.cpu_time_s), key=lambda one: one.cpu_time_s or 0, default=None)
    if largest is None or not largest.walltime_s or largest.cpu_time_s is None:
        return None
    allowed = ABUSE_FACTOR * largest.walltime_s * max(1, largest.cores)
    if largest.cpu_time_s <= allowed:
        return None
    reason = (
        f"CPU abuse: {largest.cpu_time_s:.0f} s of CPU time in {largest.walltime_s:.0f} s on {largest.cores} cores; "
        f"{allowed:.0f} s are allowed"
    )
    return Unexpected("CPU abuse", reason, {"cpu_time_s": largest.cpu_time_s, "allowed_s": allowed})


CHECKS: tuple[Callable[[Measured], Unexpected | None], ...] = (
    cpu_time, memory, memory_leak, short_jobs, low_cpu_efficiency, cpu_abuse,
)  # fmt: skip


def longer_jobs(found: Sequence[Unexpected], split_rule: Mapping[str, Any], rules: SplitRules) -> dict[str, Any] | None:
    """Rules without those that made jobs short (SCOUT_CHANGE_SR).

    nFilesPerJob and nGBPerJob go, and a job may take 200 files. None where something else does not fit, or these rules
    were not what made them short.
    """
    if [one.check for one in found] != ["short jobs"] or rules.n_events_per_job is not None:
        return None
    stated = rules.n_max_files_per_job
    longer = None if stated is None else max(stated, MAX_FILES_PER_JOB)
    kept = with_rules(split_rule, n_files_per_job=None, n_gb_per_job=None, n_max_files_per_job=longer)
    return kept if kept != dict(split_rule) else None


def has_fixed_size(rules: SplitRules) -> bool:
    """Whether the rules of a task say how large each of its jobs is."""
    sizes = (rules.n_files_per_job, rules.n_gb_per_job, rules.n_events_per_job, rules.target_events_per_job)
    return any(one is not None for one in sizes)


def _at_rank(ordered: Sequence[float], rank: float) -> float:
    """The value at this percentile: that of a job, not one between two."""
    return ordered[min(len(ordered) - 1, round(rank / 100 * (len(ordered) - 1)))]


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    return None if value is None else float(value)
