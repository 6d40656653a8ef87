"""Names of task parameters that are no rules: snake case in the code, the field's spelling in JSON."""

from __future__ import annotations

from pydantic import ConfigDict

from shared.task.about import TaskFields

_ALIASES = {
    "req_id": "reqID", "ticket_id": "ticketID", "container_name": "container_name", "load_xml": "loadXML",
    "parent_task_id": "parent_tid", "log_merge": "log_merge", "disk_io": "diskIO", "disk_io_unit": "diskIOUnit",
}  # fmt: skip


def alias_of(name: str) -> str:
    """The JSON name: ``task_name`` -> ``taskName``."""
    if name in _ALIASES:
        return _ALIASES[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class FormFields(TaskFields):
    """The base of all groups of parameters that are no rules."""

    model_config = ConfigDict(alias_generator=alias_of)
