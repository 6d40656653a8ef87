"""Gathers all runtime parameters from the modules that declare them, to list, set and explain them.

A module is imported by its name when somebody asks: no service depends on another for it. Plugins read what they like:
a key that is not declared here may be set if the caller says that it is meant.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from shared.config.parameter import Parameter, declared_by

#: in the order in which they are listed; a contract holds that no other module declares one
DECLARING_MODULES = (
    "shared.brokerage.limits",
    "shared.order.parameters",
    "shared.signed_sources.parameters",
    "services.job_generation.parameters",
    "services.job_generation.kinds.build.job",
    "services.job_generation.kinds.merge.job",
    "services.job_generation.throttle.throttle",
    "services.job_generation.throttle.gate_order",
    "services.job_generation.policy.outcomes",
    "services.job_generation.scouts.verdicts",
    "services.job_generation.scouts.parameters",
    "services.task_definition.parameters",
    "services.task_definition.tasks.policy.owners",
    "services.task_definition.tasks.policy.unit_limits",
    "services.task_definition.tasks.policy.retry_limits",
    "services.task_definition.tasks.policy.user_defaults",
    "services.task_definition.tasks.policy.staging",
    "services.task_definition.data.policy.transfers",
    "shared.timeouts.built_in",
    "shared.timeouts.outages",
    "services.watchdog.policy.rebrokerage",
    "services.watchdog.policy.tasks",
    "services.watchdog.policy.failures",
    "services.watchdog.policy.transfers",
    "services.watchdog.policy.withholding",
    "services.watchdog.policy.punctuality",
    "services.watchdog.policy.filling",
    "services.watchdog.policy.retention",
    "services.watchdog.parameters",
    "services.jumbo_watchdog.parameters",
    "services.jumbo_watchdog.policy.switch",
    "services.job_generation.kinds.jumbo.policy",
    "services.job_dispatch.parameters",
    "services.job_brokerage.parameters",
    "services.share_correction.parameters",
)
MOST_NEAR = 3


@cache
def declared_parameters() -> tuple[Parameter[Any], ...]:
    """Every declaration once, in the order of the modules."""
    found = (one for name in DECLARING_MODULES for one in declared_in(import_module(name)))
    return tuple({id(one): one for one in found}.values())


def declared_in(module: ModuleType) -> Iterator[Parameter[Any]]:
    """The parameters among a module's names, in its tuples, and in the fields of its own dataclasses."""
    for value in vars(module).values():
        if isinstance(value, Parameter):
            yield value
        elif isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, Parameter))
        elif isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__:
            yield from declared_by(value)


@cache
def _names_per_vo() -> frozenset[str]:
    """Names of the parameters of dataclasses that are filled for a VO."""
    classes = {
        value
        for name in DECLARING_MODULES
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and getattr(value, "PER_VO", False)
    }
    return frozenset(one.name for cls in classes for one in declared_by(cls))


def is_per_vo(parameter: Parameter[Any]) -> bool:
    """Whether a value for one VO alone is read."""
    return parameter.per_vo or parameter.name in _names_per_vo()


def find_parameter(component: str, key: str) -> Parameter[Any] | None:
    """The parameter of this name; of families the one with the longest key."""
    fitting = [one for one in declared_parameters() if one.fits(component, key)]
    return max(fitting, key=lambda one: (one.key == key, len(one.key)), default=None)


def near_names(component: str, key: str) -> list[str]:
    """The names most like one that is not known: of the right key in another component first."""
    declared: Sequence[Parameter[Any]] = declared_parameters()
    components = dict.fromkeys(name.partition(".")[0] for one in declared for name in one.names)
    elsewhere = [f"{there}.{key}" for there in components if any(one.fits(there, key) for one in declared)]
    names = [name for one in declared for name in one.names]
    alike: Mapping[str, str] = {name.lower(): name for name in names}
    near = difflib.get_close_matches(f"{component}.{key}".lower(), alike, n=MOST_NEAR, cutoff=0.7)
    return list(dict.fromkeys([*elsewhere, *(alike[name] for name in near)]))[:MOST_NEAR]
