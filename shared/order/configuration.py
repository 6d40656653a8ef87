"""The configuration of the correctors, in the form of the field (DIRAC: Dynamic share corrections)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_TIME_SPAN_S, DEFAULT_WEIGHT, DEFAULT_MAX_CORRECTION = 604800.0, 1.0, 3.0
DEFAULT_MAX_GLOBAL = 5.0
CORRECTORS_TO_START = "ShareCorrectorsToStart"
#: the documents' name, and the one that the field's own code reads
_MAX_GLOBAL_KEYS = ("MaxGlobalCorrectionFactor", "MaxGlobalCorrection")
_INSTANCE_KEYS = {"Group", *_MAX_GLOBAL_KEYS}
_SLICE_KEYS = {"TimeSpan", "Weight", "MaxCorrection"}

#: the example of the documents: mostly the last week, and a boost in the first hour of a newcomer
DEFAULT: dict[str, Any] = {
    CORRECTORS_TO_START: "WMSHistory",
    "WMSHistory": {
        "GroupsInstance": {
            "MaxGlobalCorrectionFactor": 3,
            "WeekSlice": {"TimeSpan": 604800, "Weight": 80, "MaxCorrection": 2},
            "HourSlice": {"TimeSpan": 3600, "Weight": 20, "MaxCorrection": 5},
        }
    },
}


class ConfigurationError(ValueError):
    """Everything that is wrong with a configuration, one line each."""


@dataclass(frozen=True)
class Slice:
    """A span of the past up to now; `weight` is its part of the whole (all weights of an instance make 1)."""

    name: str
    time_span_s: float
    weight: float
    max_correction: float


@dataclass(frozen=True)
class Instance:
    """One corrector: among groups (sibling shares), or among the users of one share (`group`)."""

    name: str
    max_global: float
    slices: tuple[Slice, ...]
    group: str | None = None


def corrections_of(section: Any) -> dict[str, tuple[Instance, ...]]:
    """The instances of each corrector to start, from a section `ShareCorrections` (one for each VO).

    `ShareCorrectorsToStart` is a name or a list of names, and starts none where it is missing; sections of correctors
    that are not started are read, too, and must be right. Raises ConfigurationError with every problem.
    Source: DIRAC, Dynamic share corrections.
    """
    where = "ShareCorrections"
    if not isinstance(section, Mapping):
        raise ConfigurationError(f"{where}: {section!r} must be an object with {CORRECTORS_TO_START} and correctors")
    problems: list[str] = []
    names = section.get(CORRECTORS_TO_START, [])
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        problems.append(f"{where}/{CORRECTORS_TO_START}: {names!r} must be the name of a corrector or a list of names")
        names = []
    found = {}
    for name, content in section.items():
        if name != CORRECTORS_TO_START:
            try:
                found[name] = instances_of(content, f"{where}/{name}")
            except ConfigurationError as error:
                problems += str(error).splitlines()
    for name in names:
        if name not in section:
            problems.append(f"{where}/{CORRECTORS_TO_START}: {name!r} has no section of its own in {where}")
    if problems:
        raise ConfigurationError("\n".join(problems))
    return {name: found[name] for name in dict.fromkeys(names)}


def corrected_groups(section: Any) -> frozenset[str]:
    """The groups or shares whose users a started corrector corrects; none where nothing is configured.

    Raises ConfigurationError.
    """
    instances = corrections_of(DEFAULT if section is None else section).values()
    return frozenset(one.group for some in instances for one in some if one.group is not None)


def instances_of(section: Any, where: str = "WMSHistory") -> tuple[Instance, ...]:
    """The instances of one section, in its order.

    Raises ConfigurationError with every problem, and where it stands.
    """
    problems: list[str] = []
    if not isinstance(section, Mapping):
        raise ConfigurationError(f"{where}: {section!r} must be an object with one object for each instance")
    instances = [_instance(f"{where}/{name}", str(name), value, problems) for name, value in section.items()]
    seen: dict[str | None, str] = {}
    for instance in instances:
        if instance.group in seen:
            whom = "groups" if instance.group is None else f"users of {instance.group}"
            problems.append(f"{where}/{instance.name}: {seen[instance.group]} already corrects the {whom}")
        seen.setdefault(instance.group, instance.name)
    if problems:
        raise ConfigurationError("\n".join(problems))
    return tuple(instances)


def _instance(where: str, name: str, value: Any, problems: list[str]) -> Instance:
    if not isinstance(value, Mapping):
        problems.append(f"{where}: {value!r} must be an object")
        return Instance(name, DEFAULT_MAX_GLOBAL, ())
    slices = []
    for key, part in value.items():
        if isinstance(part, Mapping):
            slices.append(_slice(f"{where}/{key}", str(key), part, problems))
        elif key not in _INSTANCE_KEYS:
            problems.append(f"{where}/{key}: is not known; allowed are {', '.join(sorted(_INSTANCE_KEYS))} and slices")
    if not slices:
        problems.append(f"{where}: needs at least one slice (an object with TimeSpan, Weight, MaxCorrection)")
    total = sum(one.weight for one in slices)
    if slices and total <= 0:
        problems.append(f"{where}: the weights of its slices must have a sum above 0")
    normal = tuple(
        Slice(s.name, s.time_span_s, s.weight / total if total > 0 else 0.0, s.max_correction) for s in slices
    )
    group = value.get("Group")
    factor, alias = _MAX_GLOBAL_KEYS
    if factor in value and alias in value and value[factor] != value[alias]:
        problems.append(f"{where}: {factor} is {value[factor]!r} and {alias} {value[alias]!r}; they are the same")
    most = _number(where, alias if alias in value else factor, value, DEFAULT_MAX_GLOBAL, 1.0, problems)
    return Instance(name, most, normal, None if group is None else str(group))


def _slice(where: str, name: str, value: Mapping[str, Any], problems: list[str]) -> Slice:
    for key in sorted(set(value) - _SLICE_KEYS):
        problems.append(f"{where}/{key}: is not known; allowed are {', '.join(sorted(_SLICE_KEYS))}")
    return Slice(
        name,
        _number(where, "TimeSpan", value, DEFAULT_TIME_SPAN_S, 1.0, problems),
        _number(where, "Weight", value, DEFAULT_WEIGHT, 0.0, problems),
        _number(where, "MaxCorrection", value, DEFAULT_MAX_CORRECTION, 1.0, problems),
    )


def _number(where: str, key: str, value: Mapping[str, Any], default: float, least: float, problems: list[str]) -> float:
    found = value.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found < float("inf"):
        problems.append(f"{where}/{key}: {found!r} must be a number from {least:g} on")
        return default
    return float(found)
