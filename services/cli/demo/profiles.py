"""How much the demonstration does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.cli.failures import WrongUsage


@dataclass(frozen=True)
class DemoProfile:
    """`speed_up`: the simulated pilots' payloads run so many times faster than they would in reality.

    `limits`: task parameters that replace those of an example's file, by the file's name, to make it smaller.
    `parameters`: runtime parameters (component.key) set before the tasks are submitted.
    """

    name: str
    n_pilots: int
    speed_up: float
    time_limit_s: float
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)


#: Real transfers take minutes to hours, a chunk or task without a place waits for half an hour and more, and jumbo jobs
#: are for tasks of a million events: fine for work of weeks, but the demonstration has a minute. Everything else is as
#: in earnest.
_QUICK: dict[str, Any] = {
    "catalogue.TRANSFER_SPEED_UP": 1000.0,
    "taskbrokerage.RETRY_S": 3.0,
    "jobbroker.RETRY_PRODUCTION_S": 2.0,
    "jobbroker.RETRY_ANALYSIS_S": 2.0,
    "jobgen.UNSPLITTABLE_RETRY_S": 2.0,
    "jobgen.THROTTLED_RETRY_S": 2.0,
    "jumbo_dog.JUMBO_MIN_EVENTS_DISABLE": 1000,
}
#: a tenth of the work, all kinds of it
_SMALL: dict[str, dict[str, Any]] = {
    "1_simulation": {"nFiles": 5},
    "2_generation": {"nEvents": 80_000},
    "3_derivation": {"nFiles": 120},
    "4_analysis": {"nFiles": 54},
    "5_event_service": {"nFiles": 6},
    "6_jumbo": {"nFiles": 4},
    "7_build": {"nFiles": 12},
    "8_memory": {"nEvents": 10_000},
    "9_preprocessing": {"nEvents": 10_000},
}

PROFILES: dict[str, DemoProfile] = {
    profile.name: profile
    for profile in (
        DemoProfile("full", n_pilots=200, speed_up=3600.0, time_limit_s=600.0, parameters=_QUICK),
        DemoProfile("small", n_pilots=40, speed_up=7200.0, time_limit_s=120.0, limits=_SMALL, parameters=_QUICK),
    )
}


def profile_named(name: str) -> DemoProfile:
    """Raises WrongUsage naming those that exist."""
    if name not in PROFILES:
        raise WrongUsage(f"--profile: value {name!r}: allowed are {', '.join(PROFILES)}")
    return PROFILES[name]
