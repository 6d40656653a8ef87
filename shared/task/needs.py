"""What a task asks of a queue, converted once from its row's units into unit-named fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.model.units import MB_BYTES, OutputSize, parse_cpu_time, parse_io, parse_output_size, parse_ram, parse_size
from shared.task.in_effect import rules_of

DEFAULT_CPU_EFFICIENCY = 0.9
DEFAULT_BASE_WALLTIME_S = 600


@dataclass(frozen=True)
class WorkNeeds:
    """Needs of one task's jobs.

    Cores 0 means any number; `cpu_time` None means not known yet; efficiency 0..1, where 0 switches the scaling with
    CPU time off (the expected walltime is then the base walltime).
    """

    core_count: int = 1
    max_core_count: int | None = None
    ram_mb: int = 0
    ram_per_core: bool = False
    base_ram_mb: int = 0
    output_bytes_per_event: float = 0.0
    output_bytes_per_input_mb: float = 0.0
    work_dir_bytes: int = 0
    cpu_time_hs06_s_per_event: float | None = None
    cpu_efficiency: float = DEFAULT_CPU_EFFICIENCY
    base_walltime_s: int = DEFAULT_BASE_WALLTIME_S
    io_intensity_kb_s: float = 0.0
    disk_io_kb_s: float = 0.0
    connectivity: str = ""
    ip_stack: str = ""

    def output_bytes(self, n_events: int, input_bytes: int) -> float:
        """Expected output of a job: by events if the task's unit says so, otherwise by its input."""
        return self.output_bytes_per_event * n_events + self.output_bytes_per_input_mb * input_bytes / 1024**2


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    return None if value is None else float(value)


def _efficiency(value: float | None) -> float:
    """Percent as a fraction; a task that states none has 90 %."""
    if value is None:
        return DEFAULT_CPU_EFFICIENCY
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"cpuEfficiency: {value!r} is not allowed; a percentage of zero or more is")
    return value / 100


def needs_of_task(row: Mapping[str, Any]) -> WorkNeeds:
    """The needs of a task's row (columns in snake_case, as in table `tasks`).

    Raises UnknownUnit or ValueError naming the field and what is allowed.
    """
    ram = parse_ram(_number(row, "ram_count"), row.get("ram_unit"))
    output: OutputSize = parse_output_size(_number(row, "out_disk_count"), row.get("out_disk_unit"))
    rules = rules_of(row.get("split_rule"))
    network, _, stack = str(row.get("ip_connectivity") or rules.ip_connectivity or "").partition("#")
    base_walltime_s = _number(row, "base_walltime")
    core_count = row.get("core_count")
    return WorkNeeds(
        core_count=1 if core_count is None else int(core_count),
        max_core_count=rules.max_core_count,
        ram_mb=ram.mb,
        ram_per_core=ram.per_core,
        base_ram_mb=int(row.get("base_ram_count") or 0),
        output_bytes_per_event=output.size_bytes if output.per_event else 0.0,
        output_bytes_per_input_mb=0.0 if output.per_event else output.size_bytes,
        work_dir_bytes=parse_size("workDiskCount", _number(row, "work_disk_count"), row.get("work_disk_unit")),
        cpu_time_hs06_s_per_event=parse_cpu_time(_number(row, "cpu_time"), row.get("cpu_time_unit")),
        cpu_efficiency=_efficiency(_number(row, "cpu_efficiency")),
        base_walltime_s=DEFAULT_BASE_WALLTIME_S if base_walltime_s is None else int(base_walltime_s),
        io_intensity_kb_s=parse_io("ioIntensity", _number(row, "io_intensity"), row.get("io_intensity_unit")),
        disk_io_kb_s=parse_io("diskIO", _number(row, "disk_io"), row.get("disk_io_unit")),
        connectivity=network,
        ip_stack=rules.ip_stack or stack,
    )


def cores_of_merge_job(merge_core_count: int | None) -> int:
    """Cores a task asks for merge jobs: as stated, 0 for any number (the slot's), one if not stated.

    Example: in a slot of 8 cores a merge job has 4 cores where mergeCoreCount is 4, 8 where it is 0, 1 where it is
    absent. Source: JEDI, MERGECORECOUNT; that an absent one counts as one is the choice taken here.
    """
    return 1 if merge_core_count is None else int(merge_core_count)


def needs_of_merge_job(row: Mapping[str, Any]) -> WorkNeeds:
    """The needs of merge jobs: their own cores and memory, unknown CPU time, output as large as input."""
    ram = parse_ram(_number(row, "merge_ram_count"), row.get("merge_ram_unit"))
    return replace(
        needs_of_task(row),
        core_count=cores_of_merge_job(row.get("merge_core_count")),
        max_core_count=None,
        ram_mb=ram.mb,
        ram_per_core=ram.per_core,
        base_ram_mb=0,
        output_bytes_per_event=0.0,
        output_bytes_per_input_mb=float(MB_BYTES),
        cpu_time_hs06_s_per_event=None,
    )
