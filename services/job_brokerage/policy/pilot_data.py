"""Records of queues and storages as pilots read them (PanDA pilot: queue data and storage data)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: what a pilot does (reads input, writes output, writes the log) -> the role of the storage that it uses
_ROLE_OF = {"pr": "read_lan", "pw": "write_lan", "pl": "write_lan"}


def queue_for_pilots(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it was loaded, with what a pilot needs and CRIC has under other names.

    `panda_resource` is what the pilot asks for jobs as; pr, pw and pl are the storages by what is done with them.
    """
    storages = dict(record.get("astorages") or {})
    for purpose, role in _ROLE_OF.items():
        found = storages.get(purpose) or storages.get(role) or storages.get(f"{role}_analysis")
        if found:
            storages[purpose] = found
    stated = {"panda_resource": name, "panda_queue_name": name, "nickname": name, "state": "ACTIVE"}
    return {**stated, **record, "astorages": storages}


def storage_for_pilots(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as it was loaded, under the names that a pilot looks for."""
    return {"name": name, "endpoint": name, "state": "ACTIVE", **record}
