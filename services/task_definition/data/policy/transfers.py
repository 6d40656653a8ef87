"""How long the built-in catalogue takes to move data, and whether the move fails.

Source: Foundations, transfers by throughput.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.config.parameter import Parameter, set_by

MB_BYTES = 1024**2
#: MB/s of a link that was never measured, by closeness 0 (best) to 11 (worst)
BEST_MB_S, WORST_CLOSENESS = 100.0, 11
UNKNOWN_CLOSENESS = 7.7
LOCAL_MB_S = 1000.0
MIN_MB_S = 0.1
THROUGHPUT_KEYS = ("dashb_mbps_1h", "dashb_mbps_1d", "dashb_mbps_1w")
CLOSENESS_KEY = "AGIS_closeness"


@dataclass(frozen=True)
class Speed:
    """Runtime parameters: everything is `factor` times faster; each transfer waits `latency_s` first."""

    factor: float = set_by(
        Parameter("catalogue", "TRANSFER_SPEED_UP", 1.0, "", "built-in transfers are so many times faster", 1e-6), float
    )
    latency_s: float = set_by(
        Parameter("catalogue", "TRANSFER_LATENCY_S", 10.0, "s", "of each built-in transfer"), float
    )
    failure_percent: float = set_by(
        Parameter("catalogue", "TRANSFER_FAILURE_PERCENT", 0.0, "%", "of built-in transfers fail", high=100), float
    )


def throughput_mb_s(metrics: Mapping[str, float], *, same_site: bool = False) -> float:
    """The newest measured throughput, else an estimate that falls linearly with closeness."""
    if same_site:
        return LOCAL_MB_S
    for key in THROUGHPUT_KEYS:
        if metrics.get(key, 0) > 0:
            return max(MIN_MB_S, metrics[key])
    closeness = metrics.get(CLOSENESS_KEY, UNKNOWN_CLOSENESS)
    return max(MIN_MB_S, BEST_MB_S * (1 - max(0.0, closeness) / (WORST_CLOSENESS + 1)))


def duration_s(n_bytes: int, mb_s: float, speed: Speed) -> float:
    """Waiting plus moving, both divided by the speed-up."""
    return (speed.latency_s + n_bytes / MB_BYTES / mb_s) / max(speed.factor, 1e-9)


def fails(uniform: float, speed: Speed) -> bool:
    """Whether this transfer fails, for a uniform number from 0 to 1."""
    return uniform * 100 < speed.failure_percent
