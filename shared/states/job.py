"""The life of a job (JEDI: job states and timeouts). Final states never change: a retry is a new row."""

from typing import Literal

from shared.states.graph import Graph, Owner, Transition, arrows

JobStatus = Literal[
    "pending", "waiting", "defined", "assigned", "activated", "throttled", "sent", "starting", "running", "holding",
    "transferring", "merging", "finished", "failed", "closed", "cancelled",
]  # fmt: skip

MEANINGS: dict[JobStatus, str] = {
    "pending": "inserted; the rest of its bunch is not yet",
    "waiting": "stands for events that jumbo jobs will process",
    "defined": "generated; its input has not been looked at",
    "assigned": "its input is being moved to its queue",
    "activated": "a pilot may take it",
    "throttled": "held back: its user runs too much, or its task is paused",
    "sent": "given to a pilot that has not reported yet",
    "starting": "the pilot prepares the payload",
    "running": "the payload runs",
    "holding": "the pilot reported the end; outputs are being registered",
    "transferring": "outputs are on their way to the nucleus",
    "merging": "its outputs wait to be merged",
    "finished": "succeeded",
    "failed": "did not succeed",
    "closed": "taken back by the system before it ran",
    "cancelled": "killed by a person, or its merge was given up",
}
FINAL: frozenset[JobStatus] = frozenset({"finished", "failed", "closed", "cancelled"})
#: not yet with a pilot
QUEUED: tuple[JobStatus, ...] = ("pending", "waiting", "defined", "assigned", "activated", "throttled")
#: of those: no pilot can take them yet
BEFORE_ACTIVATION: tuple[JobStatus, ...] = ("pending", "waiting", "defined", "assigned")
#: with a pilot: heartbeats are due
ON_NODE: tuple[JobStatus, ...] = ("sent", "starting", "running")
LIVE: tuple[JobStatus, ...] = (*QUEUED, *ON_NODE, "holding", "transferring", "merging")
_JG, _JD, _WD = Owner.JOB_GENERATION, Owner.JOB_DISPATCH, Owner.WATCHDOG

TRANSITIONS: tuple[Transition, ...] = (
    *arrows([None], ["pending", "defined", "waiting"], "generated", _JG),
    *arrows(["pending"], ["defined"], "its bunch is complete", _JG),
    *arrows(["defined"], ["assigned"], "input must be moved", _JD),
    *arrows(["defined"], ["activated"], "input is there or not needed", _JD),
    *arrows(["assigned"], ["activated"], "input arrived", _JD),
    *arrows(["activated"], ["sent"], "taken by a pilot", _JD),
    *arrows(["sent"], ["starting", "running"], "pilot report", _JD),
    *arrows(["starting"], ["running"], "pilot report", _JD),
    *arrows(ON_NODE, ["holding"], "pilot reported success", _JD),
    *arrows(["holding"], ["merging"], "outputs will be merged", _JD),
    *arrows(["holding"], ["transferring"], "outputs must go to the nucleus", _JD),
    *arrows(["holding", "transferring"], ["finished"], "outputs are where they belong", _JD),
    *arrows(["merging"], ["finished"], "merge job finished", _JG),
    *arrows(["merging"], ["cancelled"], "merging was given up", _JG),
    *arrows(["merging"], ["failed"], "events of its job set were not processed, or could not be merged", _JG),
    *arrows([*QUEUED, *ON_NODE, "holding", "transferring", "merging"], ["closed"], "its job set needs it no more", _JG),
    *arrows(["waiting", "assigned", "activated"], ["merging"], "jumbo jobs processed the events of its job set", _JG),
    *arrows(["activated", "defined", "assigned"], ["throttled"], "task paused or user over its cap", _JD),
    *arrows(["throttled"], ["activated"], "released", _JD),
    *arrows([*ON_NODE, "holding", "transferring"], ["failed"], "pilot reported failure, or outputs lost", _JD),
    *arrows(["assigned"], ["failed"], "its input cannot be moved", _JD),
    *arrows(LIVE, ["cancelled"], "killed", _JD),
    *arrows(LIVE, ["closed"], "no longer wanted", _JD),
    *arrows(
        [*ON_NODE, "holding", "transferring", "merging", "assigned"],
        ["failed"],
        "deadline passed or heartbeat lost",
        _WD,
    ),
    *arrows([*QUEUED, "starting"], ["closed"], "waited too long; goes elsewhere", _WD),
    *arrows(["running"], ["closed"], "took too long for the event service", _WD),
    *arrows(ON_NODE, ["merging"], "heartbeat lost after some events were processed", _WD),
)

JOB = Graph("job", MEANINGS, FINAL, TRANSITIONS)
