"""What jobs measured, and whether enough scouts succeeded.

Sources: PanDA, scout jobs; JEDI, Using scout jobs.

Values with a unit that says Fixed are never overwritten; a value set before is replaced only by a measured one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.job_generation.policy.task_row import is_fixed
from services.job_generation.scouts.reports import ScoutReport
from shared.config.parameter import Parameter, set_by

EARLY_FRACTION = 0.5
MAX_SAMPLE = 1000
WALLTIME_MARGIN = 1.5
# a product such as 1500 x 1.1 must not be rounded up to 1651
ROUNDING = 1e-9


DBPROXY = "dbproxy"


@dataclass(frozen=True)
class ScoutParameters:
    """Ranks in percent, margins as factors; component `dbproxy`, as in the field."""

    ram_rank: float = set_by(
        Parameter(DBPROXY, "SCOUT_RAMCOUNT_RANK", 100.0, "%", "rank of the scouts' memory that is taken", high=100),
        float,
    )
    ram_margin: float = set_by(
        Parameter(DBPROXY, "SCOUT_RAMCOUNT_MARGIN", 0.0, "%", "on top of it"), lambda percent: 1 + percent / 100
    )
    ram_min_mb: int = set_by(Parameter(DBPROXY, "SCOUT_RAMCOUNT_MIN", 0, "MB", "least memory set by scouts"), int)
    cpu_time_rank: float = set_by(
        Parameter(DBPROXY, "SCOUT_CPUTIME_RANK", 95.0, "%", "rank of the scouts' CPU time that is taken", high=100),
        float,
    )
    cpu_time_margin: float = 1.5
    disk_rank: float = 75.0
    disk_cap_kb: int = 10_240
    disk_io_cap_kb_s: int | None = set_by(
        Parameter(DBPROXY, "SCOUT_DISK_IO_CAP", 0, "kB/s", "most disk IO set by scouts; 0: no cap"),
        lambda cap: cap or None,
    )


@dataclass(frozen=True)
class ScoutProgress:
    """Opened files of the scouting task, and its scout jobs, by how far they are.

    `ok`, `jobs_ok`: finished, or waiting to be merged. `live`, `jobs_live`: files of jobs under way, and these jobs.
    `failed`: given up; `jobs_failed`: every failed try. `files_per_job`: files of a scout job yet to be made.
    `all_lost`: no file of the task is left in the catalogue.
    """

    opened: int
    ok: int
    failed: int
    jobs_ok: int
    jobs_failed: int
    live: int = 0
    jobs_live: int = 0
    files_per_job: int = 1
    all_lost: bool = False

    @property
    def scout_jobs(self) -> int:
        """How many scout jobs there are in the end: succeeded, under way, and those of the other opened files.

        Jobs of the other files are those that they make or made. A failed job and the one that tries its files again
        are one.

        Example: of 50 files, five for each job, 15 are in 3 jobs that succeeded, 10 in 2 that run: 3 + 2 + 25 / 5 = 10.
        """
        rest = max(0, self.opened - self.ok - self.live)
        return self.jobs_ok + self.jobs_live + math.ceil(rest / max(1, self.files_per_job))

    @property
    def ended(self) -> bool:
        """Whether every scouted input has ended, well or badly."""
        return self.ok + self.failed >= self.opened


@dataclass(frozen=True)
class ScoutsResult:
    """`go`: open everything; `give_up`: the task is broken; `exhaust`: its owner decides; else wait."""

    go: bool
    give_up: bool
    reason: str
    exhaust: bool = False


def judge(
    progress: ScoutProgress, success_rate: int | None, *, skip: bool = False, min_ok_rate: float | None = None
) -> ScoutsResult:
    """Half of the scout jobs finished, whatever files they had, or all ended; and enough succeeded.

    Success rate = finished / (finished + failed) jobs >= scoutSuccessRate / 10; unset: one success is enough. Scouts of
    which half finished at too low a rate go on until all ended. Below the rate, but at `min_ok_rate` or above, the task
    is exhausted instead of broken.

    Why: half of the measurements decide as well as all, and a task that cannot run costs ten jobs only. Example: of 10
    scout jobs 5 that finished open all input. After all ended, 4 that finished and 6 that failed are a rate of 0.4:
    enough for scoutSuccessRate 4, and the end of the task for 5, unless SCOUT_MIN_OK_RATE_EXHAUSTED is 0.4 or less.
    Source: JEDI, Scouts.
    """
    if skip:
        return ScoutsResult(True, False, "scouts are skipped")
    if progress.all_lost:
        return ScoutsResult(False, True, "no scout can run: all input is lost")
    if progress.opened <= 0:
        return ScoutsResult(False, False, "no file is open for scouts")
    n_jobs, done = progress.scout_jobs, progress.jobs_ok + progress.jobs_failed
    rate, wanted = progress.jobs_ok / done if done else 0.0, (success_rate or 0) / 10
    enough = progress.ok > 0 and rate >= wanted
    if enough and progress.jobs_ok >= EARLY_FRACTION * n_jobs:
        return ScoutsResult(True, False, f"{progress.jobs_ok} of {n_jobs} scout jobs succeeded")
    if not progress.ended:
        return ScoutsResult(False, False, "scouts still run")
    told = f"{progress.jobs_ok} of {done} scout jobs succeeded"
    if enough:
        return ScoutsResult(True, False, told)
    told += f", {wanted:.0%} are needed"
    if min_ok_rate is not None and progress.ok > 0 and rate >= min_ok_rate:
        return ScoutsResult(False, False, f"{told}; from {min_ok_rate:.0%} on its owner decides", exhaust=True)
    return ScoutsResult(False, True, told)


def measured(
    task: Mapping[str, Any], reports: Sequence[ScoutReport], parameters: ScoutParameters
) -> dict[str, int | str]:
    """Columns of `tasks` and their new values, from the reports of succeeded scouts.

    Empty where nothing was measured.

    n = events of a job; without events each job counts as one. P = core power of its queue, C = its cores.
    """
    found: dict[str, int | str] = {}
    fixed = list(task.get("fixed_units") or ())
    sample = list(reports)[:MAX_SAMPLE]
    if not is_fixed("cpu_time", task.get("cpu_time_unit"), fixed):
        found.update(_cpu_time(task, sample, parameters))
    if not is_fixed("ram_count", task.get("ram_unit"), fixed):
        found.update(_ram(task, sample, parameters))
    if not is_fixed("out_disk_count", task.get("out_disk_unit"), fixed):
        found.update(_output(task, sample, parameters))
    if not is_fixed("io_intensity", task.get("io_intensity_unit"), fixed):
        found.update(_io_intensity(sample))
    if not is_fixed("disk_io", task.get("disk_io_unit"), fixed):
        found.update(_disk_io(sample, parameters))
    if not is_fixed("work_disk_count", task.get("work_disk_unit"), fixed):
        found.update(_work_directory(task, sample))
    found.update(_walltime(task, sample))
    return found


def _number_or(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _cpu_time(task: Mapping[str, Any], sample: Sequence[ScoutReport], parameters: ScoutParameters) -> dict[str, Any]:
    """max(0, wall - base) x P x C x efficiency / n: 95th percentile x 1.5, rounded up; small values in thousandths.

    Only jobs with at least ten events for each core, or longer than six hours, or without event numbers: in shorter
    ones the set-up hides what an event needs.

    Example: one job of 6600 s with 1000 events on one core of 10 HS06, a base of 600 s and an efficiency of 90 % needs
    6000 x 10 x 0.9 / 1000 = 54 HS06 s for each event; with the margin the task has 81. Source: JEDI, CPUTIME.
    """
    base = _number_or(task.get("base_walltime"), 600)
    efficiency = _number_or(task.get("cpu_efficiency"), 90) / 100
    values = [
        max(0.0, one.walltime_s - base) * one.core_power_hs06 * one.cores * efficiency / max(1, one.n_events or 1)
        for one in sample
        if one.walltime_s is not None
        and (one.n_events is None or one.n_events >= 10 * one.cores or one.walltime_s >= 6 * 3600)
    ]
    if not values or efficiency == 0:
        return {}
    value = float(np.percentile(values, parameters.cpu_time_rank)) * parameters.cpu_time_margin
    if value <= 0:
        return {}
    if value < 10:
        return {"cpu_time": max(1, math.ceil(value * 1000)), "cpu_time_unit": "mHS06sPerEvent"}
    return {"cpu_time": math.ceil(value - ROUNDING), "cpu_time_unit": "HS06sPerEvent"}


def _ram(task: Mapping[str, Any], sample: Sequence[ScoutReport], parameters: ScoutParameters) -> dict[str, Any]:
    """(maxPSS - baseRamCount) / C per core, or maxPSS as it is for the unit MB: by default the maximum. MB.

    Example: 2000 and 1500 MB with a base of 500 MB on one core give 1500 MB per core; with rank 75 and margin 10 %
    they give 1513 MB. Source: JEDI, RAMCOUNT; the newer documentation's 75 and 10 % are a matter of configuration.
    """
    per_core = str(task.get("ram_unit") or "MBPerCore").startswith("MBPerCore")
    base = float(task.get("base_ram_count") or 0)
    values = [
        max(0.0, one.max_pss_kb / 1024 - base) / max(1, one.cores) if per_core else one.max_pss_kb / 1024
        for one in sample
        if one.max_pss_kb
    ]
    if not values:
        return {}
    value = math.ceil(float(np.percentile(values, parameters.ram_rank)) * parameters.ram_margin - ROUNDING)
    return {"ram_count": max(value, parameters.ram_min_mb, 1), "ram_unit": "MBPerCore" if per_core else "MB"}


def _output(task: Mapping[str, Any], sample: Sequence[ScoutReport], parameters: ScoutParameters) -> dict[str, Any]:
    """Output for each event, or for each MB of input: 75th percentile in kB, at most 10240.

    Why at most: one job with a large log must not keep the task from every queue. Example: 100 MB from 1000 events are
    102.4 kB for each event, rounded up to 103. Source: JEDI, OUTDISKCOUNT.
    """
    per_event = "PerEvent" in str(task.get("out_disk_unit") or "")
    values = []
    for one in sample:
        if one.output_bytes is None or (one.n_events is not None and one.n_events < 10):
            continue
        per = (one.n_events or 1) if per_event else one.input_bytes / 1024**2
        if per > 0:
            values.append(one.output_bytes / 1024 / per)
    if not values:
        return {}
    value = min(parameters.disk_cap_kb, math.ceil(float(np.percentile(values, parameters.disk_rank))))
    return {"out_disk_count": value, "out_disk_unit": "kBPerEvent" if per_event else "kB"}


def _io_intensity(sample: Sequence[ScoutReport]) -> dict[str, Any]:
    """(input + output) / wall / C: the maximum, kB/s.

    Example: 900 MB of input and 100 MB of output in 1000 s on one core are 1024 kB/s. Source: JEDI, IOINTENSITY.
    """
    values = [
        (one.input_bytes + (one.output_bytes or 0)) / 1024 / one.walltime_s / max(1, one.cores)
        for one in sample
        if one.walltime_s
    ]
    return {"io_intensity": math.ceil(max(values)), "io_intensity_unit": "kBPerS"} if values else {}


def _disk_io(sample: Sequence[ScoutReport], parameters: ScoutParameters) -> dict[str, Any]:
    """(read + written) / wall: the mean, kB/s, at most the cap."""
    values = [one.disk_io_bytes / 1024 / one.walltime_s for one in sample if one.disk_io_bytes and one.walltime_s]
    if not values:
        return {}
    mean = float(np.mean(values))
    cap = parameters.disk_io_cap_kb_s
    return {"disk_io": math.ceil(mean if cap is None else min(mean, cap)), "disk_io_unit": "kBPerS"}


def _work_directory(task: Mapping[str, Any], sample: Sequence[ScoutReport]) -> dict[str, Any]:
    """The largest work directory in MB; never below what the task says."""
    sizes = [one.work_dir_bytes / 1024**2 for one in sample if one.work_dir_bytes]
    preset = int(task.get("work_disk_count") or 0)
    if not sizes or str(task.get("work_disk_unit") or "MB") != "MB" or max(sizes) <= preset:
        return {}
    return {"work_disk_count": math.ceil(max(sizes)), "work_disk_unit": "MB"}


def _walltime(task: Mapping[str, Any], sample: Sequence[ScoutReport]) -> dict[str, Any]:
    """CPU seconds for each MB of input, 1.5 x the maximum; zero below an hour; a larger preset is kept.

    Why zero: jobs that short fit every queue. Example: 7200 s of CPU for 1440 MB are 5 s for each MB; with the margin
    7.5, rounded up to 8. Source: JEDI, WALLTIME.
    """
    used = [(one.cpu_time_s, one.input_bytes) for one in sample if one.cpu_time_s]
    if not used:
        return {}
    longest = max(cpu for cpu, _ in used)
    preset = int(task.get("walltime") or 0)
    if preset < 0:
        return {"walltime_unit": "kSI2kseconds"}
    per_mb = max(cpu / max(1.0, size / 1024**2) for cpu, size in used) * WALLTIME_MARGIN if longest >= 3600 else 0.0
    return {"walltime": min(max(preset, math.ceil(per_mb)), 999_999_999), "walltime_unit": "kSI2kseconds"}
