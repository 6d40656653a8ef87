"""The life of an event range (JEDI: Transition of event status). The attempt counter counts down."""

from collections.abc import Mapping
from typing import Literal

from shared.states.graph import Graph, Owner, Transition, arrows

EventRangeStatus = Literal[
    "ready", "sent", "running", "finished", "cancelled", "discarded", "done", "failed", "fatal", "merged",
    "corrupted",
]  # fmt: skip

MEANINGS: dict[EventRangeStatus, str] = {
    "ready": "can be processed",
    "sent": "given to a pilot",
    "running": "being processed",
    "finished": "processed; its job still runs",
    "cancelled": "its job was killed before it was processed",
    "discarded": "its job was killed while merging",
    "done": "processed; its job ended; waits to be merged",
    "failed": "could not be processed; a copy with one attempt less replaces it",
    "fatal": "failed for good",
    "merged": "in a merged file",
    "corrupted": "its output is bad; processed again",
}
#: the number of each state in the table
CODES: Mapping[EventRangeStatus, int] = {
    "ready": 0, "sent": 1, "running": 2, "finished": 3, "cancelled": 4, "discarded": 5, "done": 6, "failed": 7,
    "fatal": 8, "merged": 9, "corrupted": 10,
}  # fmt: skip
STATUS_OF_CODE: Mapping[int, EventRangeStatus] = {code: status for status, code in CODES.items()}
FINAL: frozenset[EventRangeStatus] = frozenset({"cancelled", "discarded", "failed", "fatal", "merged", "corrupted"})
#: states in which the file with the processed events can be deleted: column file_not_deleted is Y then
USED_UP: frozenset[EventRangeStatus] = frozenset({"discarded", "merged", "corrupted"})
_JG, _JD = Owner.JOB_GENERATION, Owner.JOB_DISPATCH

TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, "ready", "event-service job generated", _JG),
    Transition(None, "ready", "copy of a failed range", _JD),
    *arrows(["ready"], ["sent"], "a pilot asked", _JD),
    *arrows(["sent"], ["running"], "pilot report", _JD),
    *arrows(["sent", "running"], ["finished", "failed"], "pilot report", _JD),
    *arrows(["failed", "running"], ["fatal"], "fatal error", _JD),
    *arrows(["finished"], ["done"], "the job ended", _JG),
    *arrows(["sent", "running"], ["ready"], "the job ended; released", _JG),
    *arrows(["ready"], ["fatal"], "no attempts left", _JG),
    *arrows(["ready", "sent", "running"], ["cancelled"], "job killed before processing", _JG),
    *arrows(["finished", "done"], ["discarded"], "job killed while merging, or retry that discards", _JG),
    *arrows(["done"], ["merged"], "merge job finished", _JG),
    *arrows(["done"], ["corrupted"], "bad file", _JG),
)

EVENT_RANGE = Graph("event_range", MEANINGS, FINAL, TRANSITIONS)
