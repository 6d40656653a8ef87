"""How simulated payloads and pilots behave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong with a job or its pilot."""

    PAYLOAD = "payload"  # the payload ends with an error
    MEMORY = "memory"  # it needs more memory than it was given
    STAGE_OUT = "stage_out"  # its outputs cannot be stored
    VANISH = "vanish"  # the node fails: heartbeats stop
    SILENT = "silent"  # the pilot takes the job and sends nothing more
    DUPLICATE = "duplicate"  # the final report is sent twice
    BAD_REPORT = "bad_report"  # the list of outputs in the final report is cut off


#: rates of an ordinary grid; jobs of pilots that vanish or stay silent wait for the watchdog, so none do by default
ORDINARY_RATES: dict[Fault, float] = {
    Fault.PAYLOAD: 0.015,
    Fault.MEMORY: 0.003,
    Fault.STAGE_OUT: 0.007,
    Fault.VANISH: 0.0,
    Fault.SILENT: 0.0,
    Fault.DUPLICATE: 0.02,
    Fault.BAD_REPORT: 0.005,
}
SHORTEST_HEARTBEAT_REAL_S = 2.0
BACK_OFF_REAL_S = 0.5


@dataclass(frozen=True)
class Profile:
    """Medians and spreads (standard deviation of the logarithm) in simulated seconds, MB per core and kB."""

    seed: int = 1
    rates: Mapping[Fault, float] = field(default_factory=lambda: dict(ORDINARY_RATES))
    event_s: float = 1.0  # CPU seconds per event, median over tasks
    event_spread: float = 0.3
    walltime_s: float = 3600.0  # of jobs that name no events
    walltime_spread: float = 0.4
    set_up_s: float = 300.0
    longest_walltime_s: float = 43_200.0
    memory_mb_per_core: float = 1400.0
    memory_spread: float = 0.08
    output_kb_per_event: float = 20.0
    heartbeat_s: float = 1800.0
    back_off_s: float = 30.0
    longest_back_off_s: float = 600.0
    most_jobs: int = 50  # of one pilot

    def faster(self, speed_up: float) -> Profile:
        """The same rates for a world that runs `speed_up` times as fast.

        What burdens the servers keeps a sufficient distance in real time.
        """
        return replace(
            self,
            heartbeat_s=max(self.heartbeat_s, SHORTEST_HEARTBEAT_REAL_S * speed_up),
            back_off_s=BACK_OFF_REAL_S * speed_up,
            longest_back_off_s=10 * BACK_OFF_REAL_S * speed_up,
        )


def rates_from(texts: Mapping[str, float]) -> dict[Fault, float]:
    """Rates by kind on top of the ordinary ones.

    Raises ValueError naming the kind or rate and what is allowed.
    """
    rates = dict(ORDINARY_RATES)
    for name, rate in texts.items():
        try:
            kind = Fault(name)
        except ValueError:
            raise ValueError(f"failures: {name!r} is not a kind; allowed are {', '.join(Fault)}") from None
        if not 0 <= rate <= 1:
            raise ValueError(f"failures: {name}={rate} is not allowed; a rate from 0 to 1 is")
        rates[kind] = rate
    ending = sum(rates[kind] for kind in _ENDINGS)
    if ending > 1:
        raise ValueError(f"failures: the rates of {', '.join(_ENDINGS)} add up to {ending}; at most 1 is allowed")
    return rates


_ENDINGS = (Fault.PAYLOAD, Fault.MEMORY, Fault.STAGE_OUT, Fault.VANISH, Fault.SILENT)
