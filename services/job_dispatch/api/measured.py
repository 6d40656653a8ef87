"""What pilots and factories measure: one table of what can be.

A number beyond it costs its field, never the report: it is left out, noted with its value, and counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from services.job_dispatch.api.requests import LARGEST_FILE_BYTES, whole
from shared.model.whole_numbers import LARGEST_INT4
from shared.web.values import absent


@dataclass(frozen=True)
class Bounds:
    """The least and the most of a quantity, both allowed."""

    least: float
    most: float

    def hold(self, value: float) -> bool:
        """Whether a number is within them."""
        return math.isfinite(value) and self.least <= value <= self.most


#: of one job or one machine; a petabyte, a hundred thousand cores for ten days, and sixteen terabytes of memory
EVENTS, FILES, CORES = Bounds(0, 10**10), Bounds(0, 10**6), Bounds(0, 100_000)
CPU_S, CPU_FACTOR = Bounds(0, 10**11), Bounds(0, 10_000)
#: what a process may address is far more than the memory that a machine has
MEMORY_KB, ADDRESSED_KB = Bounds(0, 2**34), Bounds(0, 2**40)
BYTES, BYTES_PER_S = Bounds(0, LARGEST_FILE_BYTES), Bounds(0, 2**44)
EXIT_CODE = Bounds(-LARGEST_INT4, LARGEST_INT4)
MEMORY_MB, DISK_MB, CLOCK_MHZ, PARTS = Bounds(0, 2**34), Bounds(0, 2**40), Bounds(0, 10**6), Bounds(0, 100_000)
#: of a slope that is fitted to measurements
SLOPE = Bounds(-(10**9), 10**9)
#: Unix time: 2000-01-01 and, for clocks that go fast, a day from now
EARLIEST_S, AHEAD_S = 946_684_800.0, 86_400.0
#: the parts of `job_metrics` that are known: nEvents=10 leak=-0.5
METRICS: Mapping[str, Bounds] = {
    "coreCount": CORES, "actualCoreCount": CORES, "nEvents": EVENTS, "nEventsW": EVENTS, "resimevents": EVENTS,
    "dbTime": CPU_S, "dbData": BYTES, "workDirSize": BYTES, "vmPeakMax": ADDRESSED_KB, "vmPeakMean": ADDRESSED_KB,
    "RSSMean": MEMORY_KB, "hs06": CPU_FACTOR, "cpuFactor": CPU_FACTOR, "cpuLimit": CPU_S, "diskLimit": BYTES,
    "memLimit": BYTES, "runLimit": CPU_S, "jobStart": CPU_S, "shutdownTime": CPU_S, "readbyterate": BYTES_PER_S,
    "leak": SLOPE, "chi2": Bounds(0, 10**12),
}  # fmt: skip


def _within(bounds: Bounds) -> Any:
    return Field(ge=bounds.least, le=bounds.most, allow_inf_nan=False)


Events = Annotated[Annotated[int, _within(EVENTS)] | None, BeforeValidator(whole)]
Files = Annotated[Annotated[int, _within(FILES)] | None, BeforeValidator(whole)]
Cores = Annotated[Annotated[int, _within(CORES)] | None, BeforeValidator(whole)]
MeanCores = Annotated[Annotated[float, _within(CORES)] | None, BeforeValidator(absent)]
CpuSeconds = Annotated[Annotated[float, _within(CPU_S)] | None, BeforeValidator(absent)]
CpuFactor = Annotated[Annotated[float, _within(CPU_FACTOR)] | None, BeforeValidator(absent)]
MemoryKb = Annotated[Annotated[int, _within(MEMORY_KB)] | None, BeforeValidator(whole)]
AddressedKb = Annotated[Annotated[int, _within(ADDRESSED_KB)] | None, BeforeValidator(whole)]
Bytes = Annotated[Annotated[int, _within(BYTES)] | None, BeforeValidator(whole)]
BytesPerSecond = Annotated[Annotated[int, _within(BYTES_PER_S)] | None, BeforeValidator(whole)]
ExitCode = Annotated[Annotated[int, _within(EXIT_CODE)] | None, BeforeValidator(whole)]
MemoryMb = Annotated[Annotated[int, _within(MEMORY_MB)] | None, BeforeValidator(whole)]
DiskMb = Annotated[Annotated[int, _within(DISK_MB)] | None, BeforeValidator(whole)]
ClockMhz = Annotated[Annotated[float, _within(CLOCK_MHZ)] | None, BeforeValidator(absent)]
Parts = Annotated[Annotated[int, _within(PARTS)] | None, BeforeValidator(whole)]


def moment(value: str | None) -> str | None:
    """A time as it was sent: seconds since 1970, or a date.

    Raises ValueError where it is none, or cannot be yet.
    """
    if value is None:
        return None
    try:
        at = float(value)
    except ValueError:
        then = datetime.fromisoformat(value)
        at = (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()
    if not EARLIEST_S <= at <= time.time() + AHEAD_S:
        raise ValueError("a time from 2000-01-01 to now")
    return value


def timing(value: str | None) -> str | None:
    """Seconds joined by bars. Raises ValueError where some are negative."""
    if value is not None and any(part.strip().startswith("-") for part in value.split("|")):
        raise ValueError("seconds from 0 on, joined by |")
    return value


MOMENT, TIMING = AfterValidator(moment), AfterValidator(timing)


def believed_metrics(text: str) -> tuple[str, dict[str, str]]:
    """The parts of `job_metrics` that can be, and those of the table that cannot, with their values."""
    kept, odd = [], {}
    for part in text.split():
        name, separator, value = part.partition("=")
        bounds = METRICS.get(name) if separator else None
        if bounds is None or _is_within(bounds, value):
            kept.append(part)
        else:
            odd[name] = value
    return " ".join(kept), odd


def _is_within(bounds: Bounds, text: str) -> bool:
    try:
        return bounds.hold(float(text))
    except ValueError:
        return True  # no number: nobody takes it for one
