"""Finding the plugin of a VO and label among the installed entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

ANY = "any"
GROUPS = (
    "orrery.task_brokerage",
    "orrery.job_brokerage",
    "orrery.job_generation",
    "orrery.share_corrector",
    "orrery.owner_notice",
)


class PluginError(Exception):
    """No plugin, two of one name, or one that cannot be loaded; the text names group and name."""


def candidates(vo: str, label: str) -> tuple[str, ...]:
    """Names to look for, the closest first: <vo>.<label>, <vo>.any, any.<label>, any.any."""
    return tuple(dict.fromkeys(f"{v}.{w}" for v in (vo or ANY, ANY) for w in (label or ANY, ANY)))


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name.

    Raises PluginError for an unknown group or a name with two meanings.
    """
    if group not in GROUPS:
        raise PluginError(f"plugin group {group!r}: allowed are {', '.join(GROUPS)}")
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        name = entry.name.lower()
        other = found.setdefault(name, entry)
        if other.value != entry.value:
            raise PluginError(f"plugin {group} {name!r} is given twice: {other.value} and {entry.value}")
    return found


def find(group: str, vo: str, label: str) -> Any:
    """The class of the closest plugin. Raises PluginError."""
    known = installed(group)
    for name in candidates(vo.lower(), label.lower()):
        entry = known.get(name)
        if entry is not None:
            try:
                return entry.load()
            except Exception as error:
                raise PluginError(f"plugin {group} {name!r} ({entry.value}) cannot be loaded: {error}") from error
    raise PluginError(
        f"no plugin of {group} for VO {vo!r} and label {label!r}: installed are {', '.join(sorted(known)) or 'none'}"
    )
