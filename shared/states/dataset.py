"""The life of a task's datasets (JEDI: Transition of dataset status)."""

from typing import Literal

from shared.states.graph import Graph, Owner, Transition, arrows

DatasetStatus = Literal[
    "defined", "toupdate", "pending", "broken", "ready", "running", "prepared", "done", "finished", "failed",
    "removed",
]  # fmt: skip

MEANINGS: dict[DatasetStatus, str] = {
    "defined": "the task names it",
    "toupdate": "input: must be looked at again",
    "pending": "input: not available for the moment",
    "broken": "input: will never be available",
    "ready": "input: its files can be used; output: exists in the catalogue, that of a site from its first file on",
    "running": "output: files are being added",
    "prepared": "output: complete, ready for post-processing",
    "done": "all files were processed (input) or are there (output)",
    "finished": "some files were processed or produced",
    "failed": "no file was processed or produced",
    "removed": "input: taken out of the task",
}
FINAL: frozenset[DatasetStatus] = frozenset({"broken", "done", "finished", "failed", "removed"})
_TD, _JG = Owner.TASK_DEFINITION, Owner.JOB_GENERATION
_ENDS: tuple[DatasetStatus, ...] = ("done", "finished", "failed")

TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, "defined", "the task was refined", _TD),
    Transition(None, "ready", "the dataset of a site that was chosen", _JG),
    *arrows(["defined", "toupdate"], ["ready"], "contents loaded, or output registered", _TD),
    *arrows(["defined", "ready", "toupdate"], ["pending"], "not available", _TD),
    *arrows(["pending", "ready", "done"], ["toupdate"], "look again", _TD),
    *arrows(["pending", "toupdate", "defined"], ["broken"], "will never be available", _TD),
    *arrows(["ready", "pending", "toupdate", "defined", "done"], ["removed"], "taken out of the task", _TD),
    *arrows(["ready"], ["running"], "first job will add files", _JG),
    *arrows(["running", "ready"], ["prepared"], "no more files will be added", _JG),
    *arrows(["ready"], ["done"], "every file of the input was processed", _JG),
    *arrows(["ready", "running", "prepared", "defined", "toupdate", "pending"], _ENDS, "the task ended", _TD),
    *arrows(_ENDS, ["ready", "toupdate", "running"], "re-opened by a command", _TD),
)

DATASET = Graph("dataset", MEANINGS, FINAL, TRANSITIONS)
