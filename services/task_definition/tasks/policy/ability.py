"""Which fields of a task a check of brokerage depends on, for who is refused by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: check -> fields that its submitter may change
_FIELDS_OF_CHECK = {
    "preassigned": ("site",),
    "included_sites": ("includedSite",),
    "excluded_sites": ("excludedSite",),
    "core_count": ("coreCount",),
    "max_core_count": ("maxCoreCount",),
    "memory_too_large": ("ramCount", "baseRamCount", "coreCount"),
    "memory_too_small": ("ramCount", "baseRamCount", "coreCount"),
    "scratch_disk": ("workDiskCount", "outDiskCount", "nFilesPerJob", "nGBPerJob"),
    "walltime_too_long": ("cpuTime", "baseWalltime", "nEventsPerJob", "nFilesPerJob", "maxWalltime"),
    "walltime_too_short": ("cpuTime", "nEventsPerJob", "nFilesPerJob"),
    "cpu_hardware": ("architecture",),
    "gpu_hardware": ("architecture",),
    "container": ("container_name",),
    "release": ("transUses", "transHome", "architecture"),
    "connectivity": ("ipConnectivity",),
    "ip_stack": ("ipStack",),
    "direct_access": ("nFilesPerJob", "useLocalIO"),
    "event_service": ("nEventsPerWorker", "esFraction", "esConvertible"),
}


def fields_to_change(checks: Iterable[str]) -> list[str]:
    """Fields that decide checks which left queues out, each once, those of the first check first.

    Example: of scratch_disk and status: workDiskCount, outDiskCount, nFilesPerJob, nGBPerJob.
    """
    return list(dict.fromkeys(field for check in checks for field in _FIELDS_OF_CHECK.get(check, ())))


def in_their_order(summary: Mapping[str, Any]) -> list[str]:
    """Checks that left queues out: that of the nearest miss, then the one that left out most."""
    counts: Mapping[str, int] = summary["checks"]
    nearest = (summary["nearest_miss"] or {}).get("check")
    return sorted(counts, key=lambda check: (check != nearest, -counts[check], check))


def never_runs(reason: str, summary: Mapping[str, Any]) -> str:
    """What a submitter is told whose task no queue could ever run, and which fields decide."""
    fields = ", ".join(fields_to_change(in_their_order(summary)))
    return f"no queue could ever run this task: {reason}" + (f"; it depends on {fields}" if fields else "")
