"""What counts as an outage of ours, and what follows it: runtime parameters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.config.parameter import Parameter, set_by
from shared.config.parameters import Parameters
from shared.timeouts.hearing import OutageTimes
from shared.timeouts.limits import limits_of


def _seconds(key: str, default_s: float, means: str, low: float = 0.0) -> float:
    return set_by(Parameter("watchdog", key, default_s, "s", means, low), float)


@dataclass(frozen=True)
class _Outages:
    heartbeat_interval_s: float = _seconds("HEARTBEAT_INTERVAL_S", 1800.0, "between two heartbeats of a pilot", 1)
    heartbeat_retry_s: float = _seconds("HEARTBEAT_RETRY_S", 600.0, "until a pilot that was not heard has tried again")
    missed_s: float = _seconds("MISSED_S", 60.0, "without a dispatcher, from which time counts for no pilot", 60)
    dispatcher_silence_s: float = _seconds(
        "DISPATCHER_SILENCE_S", 180.0, "without a dispatcher, or any call of a VO: an outage", 60
    )
    unheard_given_up_s: float = _seconds(
        "UNHEARD_GIVEN_UP_S", 21_600.0, "in which nobody of a VO is heard, until that counts as silence"
    )
    expiry_spread_s: float = _seconds("EXPIRY_SPREAD_S", 1800.0, "in which jobs that are due end, after a grace")


def heartbeat_interval(parameters: Parameters) -> timedelta:
    """How often a pilot reports: at least twice within the shortest heartbeat limit."""
    shortest = limits_of(parameters, (), ()).shortest_heartbeat
    return min(timedelta(seconds=parameters.filled(_Outages).heartbeat_interval_s), shortest / 2)


def outage_times(parameters: Parameters) -> OutageTimes:
    """Read what is an outage; the grace after it is a pilot's interval and the time to try again."""
    found = parameters.filled(_Outages)
    return OutageTimes(
        missed=timedelta(seconds=found.missed_s),
        outage=timedelta(seconds=found.dispatcher_silence_s),
        given_up=timedelta(seconds=found.unheard_given_up_s),
        grace=heartbeat_interval(parameters) + timedelta(seconds=found.heartbeat_retry_s),
        spread=timedelta(seconds=found.expiry_spread_s),
    )
