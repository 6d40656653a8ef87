"""Checks what a queue must keep to be loaded, beyond the ranges of its fields.

It also tells which fields nothing reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.brokerage.zero_share import check_zero_share
from shared.model.grid import records_of
from shared.model.queue import CricQueue
from shared.model.steps import Steps

GRID_CHECKS = (check_zero_share,)
MOST_NAMES = 20
#: read by pilots, who get the records as they were loaded (PanDA pilot: queue data)
OF_PILOTS = frozenset(
    {"acopytools", "allow_lan", "allow_wan", "altstageout", "appdir", "aprotocols", "cmtconfig", "container_options",
     "container_type", "copytools", "es_stageout_gap", "nickname", "panda_queue_name", "panda_resource",
     "rc_site", "rc_site_state", "state", "timefloor", "zip_time_gap"}
)  # fmt: skip


def unread_queue_fields(files: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    """Fields of queues that neither anything here nor a pilot reads: how many, and the first names.

    CRIC has many, so this refuses nothing, but a misspelled field is seen here. A queue in each step.
    """
    found = set[str]()
    for record in records_of(files, "queues").values():
        yield
        found.update(record.keys() - CricQueue.model_fields.keys() - OF_PILOTS)
    unread = sorted(found)
    return {"count": len(unread), "names": unread[:MOST_NAMES]} if unread else {}


def warning_of(unread: Mapping[str, Any]) -> str:
    """The same for people, to be put behind what was done; nothing where every field is read."""
    if not unread:
        return ""
    more = unread["count"] - len(unread["names"])
    return f"; {unread['count']} fields of queues are not read: {', '.join(unread['names'])}" + (
        f" and {more} more" if more else ""
    )
