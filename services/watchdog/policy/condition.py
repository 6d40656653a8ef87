"""What of the present condition of the system is wrong; pure: counts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.states.job import JobStatus
from shared.states.task import TaskStatus

Row = Mapping[str, Any]

_MIN, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
#: how long jobs and tasks stay in a state that passes; beyond, somebody should look
USUAL_OF_JOBS: Mapping[JobStatus, float] = {
    "pending": 2 * _HOUR, "defined": _HOUR, "assigned": 2 * _DAY, "holding": 3 * _HOUR, "transferring": _DAY,
    "merging": _DAY,
}  # fmt: skip
#: time-out rules were not asked about a job whose deadline passed so long ago: more than the grace after an outage
NOT_ASKED_S = 2 * _HOUR
USUAL_OF_TASKS: Mapping[TaskStatus, float] = {
    "registered": 10 * _MIN, "defined": 10 * _MIN, "assigning": 2 * _HOUR, "toabort": 2 * _HOUR, "aborting": 2 * _HOUR,
    "toretry": _HOUR, "toincexec": _HOUR, "rerefine": _HOUR, "toreassign": _HOUR, "reassigning": _HOUR,
    "tobroken": _HOUR, "prepared": _HOUR, "passed": _HOUR, "finishing": _HOUR, "scouted": _HOUR,
    "staging": 7 * _DAY, "pending": 7 * _DAY, "throttled": 7 * _DAY, "exhausted": 7 * _DAY,
}  # fmt: skip
#: events, chunks, transfers and results that somebody should have taken by now
USUAL_S = 10 * _MIN
UNPUBLISHED_S, DEFERRED_S = 60.0, _HOUR


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: since when, how many, and what shows more."""

    what: str
    n: int
    since: datetime | None
    see: str


def findings(
    now: datetime, *, services: Sequence[str], leases: Sequence[Row], messages: Row, waiting: Mapping[str, Any]
) -> list[Finding]:
    """Everything that is not as usual; what stops most work first."""
    return [*_away(services, leases), *_messages(now, messages), *_waiting(waiting)]


def _away(services: Sequence[str], leases: Sequence[Row]) -> Iterable[Finding]:
    known = {one["service"]: one for one in leases}
    for service in services:
        row = known.get(service)
        if row is None or not row["n_kept"]:
            told = "holds none of its leases: it does not run" if row else "has never held a lease: it never ran"
            yield Finding(f"{service} {told}", 1, row["last_at"] if row else None, "its log; /readyz of its copies")


def _messages(now: datetime, messages: Row) -> Iterable[Finding]:
    def is_old(since: datetime | None, usual_s: float) -> bool:
        """Whether something has waited longer than usual."""
        return since is not None and (now - since).total_seconds() > usual_s

    if is_old(messages["unpublished_since"], UNPUBLISHED_S):
        what = "events are not published: is RabbitMQ away or full?"
        yield Finding(what, messages["n_unpublished"], messages["unpublished_since"], "the log of RabbitMQ")
    if is_old(messages["deferred_since"], DEFERRED_S):
        what = "messages are tried again and again"
        yield Finding(what, messages["n_deferred"], messages["deferred_since"], "the reasons below")
    if messages["n_parked"]:
        yield Finding("messages were put aside", messages["n_parked"], messages["parked_since"], "orrery bus parked")


def _waiting(waiting: Mapping[str, Any]) -> Iterable[Finding]:
    chunks, transfers, results = waiting["chunks"], waiting["transfers"], waiting["results"]
    if results["n_jobs"]:
        yield Finding("ended jobs are not counted", results["n_jobs"], results["since"], "the log of job-generation")
    if chunks["n_chunks"]:
        see = f"orrery explain task {chunks['example']}"
        yield Finding("chunks are not brokered", chunks["n_chunks"], chunks["since"], see)
    for row in waiting["tasks"]:
        what = f"tasks are {row['status']} for more than {_span(row['usual_s'])}"
        yield Finding(what, row["n_tasks"], row["since"], f"orrery explain task {row['example']}")
    not_asked = waiting["not_asked"]
    if not_asked["n_jobs"]:
        what = "jobs have a deadline that passed, and the watchdog did not look"
        yield Finding(what, not_asked["n_jobs"], not_asked["since"], "orrery watchdog list")
    for row in waiting["jobs"]:
        what = f"jobs are {row['status']} for more than {_span(row['usual_s'])}"
        yield Finding(what, row["n_jobs"], row["since"], f"orrery jobs --status {row['status']}")
    if transfers["n_requested"]:
        what = "transfers are not begun"
        yield Finding(what, transfers["n_requested"], transfers["requested_since"], "orrery catalogue requests")
    if transfers["n_overdue"]:
        what = "transfers are a day overdue"
        yield Finding(what, transfers["n_overdue"], transfers["overdue_since"], "orrery catalogue requests")
    for row in waiting["requests"]:
        what = f"requests to the catalogue of {row['vo']} fail: {row['reason']}"
        yield Finding(what, row["n_requests"], row["since"], "orrery catalogue requests")
    for row in waiting["snapshots"]:
        what = (
            f"{row['process']} ({row['name']}) holds an old snapshot: no row that was deleted since is removed, "
            "tables grow, partitions may not be dropped, and claims get slower"
        )
        see = "`slow` below; pg_terminate_backend(pid), ROLLBACK PREPARED, or pg_drop_replication_slot(name)"
        yield Finding(what, row["n_transactions"], row["since"], see)
    for row in waiting["queues"]:
        what = f"{row['queue']} has jobs, and no pilot asked there within the last hour"
        yield Finding(what, row["n_jobs"], row["last_pilot_at"], f"orrery explain queue {row['queue']}")


def _span(seconds: float) -> str:
    for unit, size in (("days", _DAY), ("hours", _HOUR), ("minutes", _MIN)):
        if seconds >= 2 * size or (seconds >= size and unit == "minutes"):
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
