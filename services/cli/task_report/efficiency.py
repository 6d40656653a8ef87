"""How well the processor and memory of jobs were used, by kind of job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from services.console.policy.series import time_of

Facts = Mapping[str, Any]
#: the place of the payload's seconds in pilotTiming (PanDA pilot protocol)
PAYLOAD = 2


@dataclass(frozen=True)
class Efficiency:
    """Of the jobs of one kind; None for what no pilot reported.

    `cpu_percent`: CPU time over walltime x cores, the median. `walltime_s`: of the payload where its pilot told it (the
    third part of pilotTiming), else from the start to the end of the job; the median. `max_pss_mb`: the most.
    """

    job_type: str
    n_jobs: int
    cpu_percent: float | None
    walltime_s: float | None
    cpu_s_per_event: float | None
    max_pss_mb: float | None


def efficiencies(jobs: Iterable[Facts]) -> list[Efficiency]:
    """One for each kind of job, the most frequent first."""
    kinds: dict[str, list[Facts]] = {}
    for one in jobs:
        kinds.setdefault(str(one.get("job_type") or ""), []).append(one)
    found = [_of(kind, some) for kind, some in kinds.items()]
    return sorted(found, key=lambda one: (-one.n_jobs, one.job_type))


def _of(kind: str, jobs: Sequence[Facts]) -> Efficiency:
    walls = [wall for wall in map(_wall_s, jobs) if wall]
    used = [
        100.0 * cpu / (wall * max(1, int(one.get("core_count") or 1)))
        for one in jobs
        if (wall := _wall_s(one)) and (cpu := _number(one, "cpu_consumption_time")) is not None
    ]
    per_event = [
        cpu / n_events
        for one in jobs
        if (cpu := _number(one, "cpu_consumption_time")) is not None and (n_events := _number(one, "n_events"))
    ]
    pss = [value for one in jobs if (value := _number(one, "max_pss"))]
    return Efficiency(
        kind, len(jobs), _median(used), _median(walls), _median(per_event), max(pss) / 1024 if pss else None
    )


def _wall_s(job: Facts) -> float | None:
    timing = str((job.get("report") or {}).get("pilot_timing") or "").split("|")
    if len(timing) > PAYLOAD and timing[PAYLOAD].isdecimal() and int(timing[PAYLOAD]):
        return float(timing[PAYLOAD])
    begun, ended = time_of(job.get("start_time")), time_of(job.get("end_time"))
    return max(0.0, (ended - begun).total_seconds()) if begun and ended else None


def _number(job: Facts, name: str) -> float | None:
    value = (job.get("report") or {}).get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 2) if values else None
