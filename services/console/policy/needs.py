"""What a task needs: as it was stated, and as it counts now, with where that comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, Any]
#: of each need: what it is, its column, the column of its unit or the unit itself, and the names in the parameters
NEEDS: Sequence[tuple[str, str, str, str, Sequence[str]]] = (
    ("cores", "core_count", "", "coreCount", ()),
    ("memory", "ram_count", "ram_unit", "ramCount", ("ramUnit", "ramCountUnit")),
    ("CPU time", "cpu_time", "cpu_time_unit", "cpuTime", ("cpuTimeUnit",)),
    ("walltime", "walltime", "walltime_unit", "walltime", ("walltimeUnit",)),
    ("walltime that does not grow with input", "base_walltime", "s", "baseWalltime", ()),
    ("CPU efficiency", "cpu_efficiency", "%", "cpuEfficiency", ()),
    ("output", "out_disk_count", "out_disk_unit", "outDiskCount", ("outDiskUnit",)),
    ("work directory", "work_disk_count", "work_disk_unit", "workDiskCount", ("workDiskUnit",)),
    ("input and output over the network", "io_intensity", "io_intensity_unit", "ioIntensity", ("ioIntensityUnit",)),
    ("disk input and output", "disk_io", "disk_io_unit", "diskIO", ("diskIOUnit",)),
)


@dataclass(frozen=True)
class Need:
    """Amounts with their units, None where there is none; `because`: where the present one comes from."""

    what: str
    stated: float | None
    stated_unit: str
    now: float | None
    unit: str
    because: str


def needs_of(task: Facts) -> list[Need]:
    """The needs that were stated, or that count now."""
    parameters = task.get("task_parameters") or {}
    measured, fixed = set(task.get("measured_units") or ()), set(task.get("fixed_units") or ())
    found = []
    for what, column, unit, name, unit_names in NEEDS:
        stated, now = _number(parameters.get(name)), _number(task.get(column))
        if stated is None and now is None:
            continue
        stated_unit = next((str(parameters[one]) for one in unit_names if parameters.get(one)), "")
        now_unit = str(task.get(unit) or "") if unit in task else unit
        because = "measured by its scouts" if column in measured else _because(stated, now, is_fixed=column in fixed)
        found.append(Need(what, stated, stated_unit or (now_unit if stated == now else ""), now, now_unit, because))
    return found


def _because(stated: float | None, now: float | None, *, is_fixed: bool) -> str:
    if stated is None:
        return "worked out" if now is not None else ""
    if stated == now:
        return "as stated; scouts do not change it" if is_fixed else "as stated"
    return "changed since"


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
