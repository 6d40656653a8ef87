"""Amounts of work with their units, as tasks state them, turned once into unit-named fields.

Sizes of tasks, queues and storages are 1024-based. A unit may end in `Fixed` (scouts never overwrite the value) and,
for output, in `PerEvent` (it scales with events; without it the amount is per MB of input).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

KB_BYTES = 1024
MB_BYTES = 1024**2
GB_BYTES = 1024**3

SIZE_UNIT_BYTES = {"kB": KB_BYTES, "MB": MB_BYTES, "GB": GB_BYTES}
CPU_TIME_UNIT_HS06_S = {"HS06sPerEvent": 1.0, "mHS06sPerEvent": 0.001}
RAM_UNITS = ("MB", "MBPerCore")
IO_UNITS = ("kBPerS",)


class UnknownUnit(ValueError):
    """A unit that no rule knows; the message names the field, the unit and what is allowed."""

    def __init__(self, field: str, unit: object, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{field}: unit {unit!r} is unknown; allowed: {', '.join(allowed)}")
        self.field, self.unit, self.allowed = field, unit, allowed


@dataclass(frozen=True)
class Ram:
    """Memory of a job: `mb` for each core or for the whole job, on top of the base memory."""

    mb: int
    per_core: bool
    fixed: bool


@dataclass(frozen=True)
class OutputSize:
    """Expected output: bytes for each event, or bytes for each MB of input."""

    size_bytes: int
    per_event: bool
    fixed: bool


def _split_fixed(unit: str) -> tuple[str, bool]:
    return (unit.removesuffix("Fixed"), True) if unit.endswith("Fixed") else (unit, False)


def _checked(field: str, value: float | None) -> float:
    if value is None:
        return 0.0
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{field}: {value!r} is not allowed; a number of zero or more is")
    return float(value)


def parse_ram(value: float | None, unit: str | None) -> Ram:
    """`ramCount` and `ramUnit`; the unit defaults to MB for the whole job."""
    base, fixed = _split_fixed(unit or "MB")
    if base not in RAM_UNITS:
        raise UnknownUnit("ramUnit", unit, ("MB", "MBFixed", "MBPerCore", "MBPerCoreFixed"))
    return Ram(int(_checked("ramCount", value)), base == "MBPerCore", fixed)


def parse_output_size(value: float | None, unit: str | None) -> OutputSize:
    """`outDiskCount` and `outDiskUnit`; a unit that ends in PerEvent or PerEvents scales with events."""
    base, fixed = _split_fixed(unit or "kB")
    base = base.replace("PerEvents", "PerEvent")
    per_event = base.endswith("PerEvent")
    base = base.removesuffix("PerEvent")
    if base not in SIZE_UNIT_BYTES:
        allowed = tuple(
            f"{size}{kind}" for size in SIZE_UNIT_BYTES for kind in ("", "PerEvent", "Fixed", "PerEventFixed")
        )
        raise UnknownUnit("outDiskUnit", unit, allowed)
    return OutputSize(int(_checked("outDiskCount", value) * SIZE_UNIT_BYTES[base]), per_event, fixed)


def parse_size(field: str, value: float | None, unit: str | None) -> int:
    """A plain size in bytes, such as `workDiskCount` with `workDiskUnit` (MB when absent)."""
    base, _ = _split_fixed(unit or "MB")
    if base not in SIZE_UNIT_BYTES:
        raise UnknownUnit(field.replace("Count", "Unit"), unit, tuple(SIZE_UNIT_BYTES))
    return int(_checked(field, value) * SIZE_UNIT_BYTES[base])


def parse_cpu_time(value: float | None, unit: str | None) -> float | None:
    """`cpuTime` and `cpuTimeUnit` as HS06 seconds for each event; None when the task does not state it."""
    base, _ = _split_fixed(unit or "HS06sPerEvent")
    if base not in CPU_TIME_UNIT_HS06_S:
        allowed = tuple(f"{known}{kind}" for known in CPU_TIME_UNIT_HS06_S for kind in ("", "Fixed"))
        raise UnknownUnit("cpuTimeUnit", unit, allowed)
    return None if value is None else _checked("cpuTime", value) * CPU_TIME_UNIT_HS06_S[base]


def parse_io(field: str, value: float | None, unit: str | None) -> float:
    """`ioIntensity` or `diskIO` in kB/s."""
    if (unit or "kBPerS") not in IO_UNITS:
        raise UnknownUnit(f"{field}Unit", unit, IO_UNITS)
    return _checked(field, value)
