"""The life of one unit of input, or of one output file (JEDI: Transition of file status).

A row of ``task_files`` is one unit of input: a file, or a range of its events. ``partial`` is derived per file name
from several rows and never stored.
"""

from typing import Literal

from shared.states.graph import Graph, Owner, Transition, arrows

FileStatus = Literal[
    "ready", "pending", "staging", "missing", "lost", "broken", "picked", "running", "finished", "failed", "partial",
    "defined", "prepared", "merging", "cancelled", "nooutput",
]  # fmt: skip

MEANINGS: dict[FileStatus, str] = {
    "ready": "input: can be used; unmerged output: waits to be merged",
    "pending": "input: waits for the parent task",
    "staging": "input: waits for tape",
    "missing": "input: absent where the task was assigned",
    "lost": "input: was in the catalogue and is gone from it; goes on if it comes back",
    "broken": "input: corrupted",
    "picked": "input: taken into a chunk",
    "running": "input: a job uses it; output: a job produces it",
    "finished": "input: used successfully; output: in the catalogue",
    "failed": "input: no attempts left; output: not produced",
    "partial": "input: some of its event ranges were processed (derived)",
    "defined": "output: has a name",
    "prepared": "output: produced",
    "merging": "output: being merged",
    "cancelled": "output: will not be produced",
    "nooutput": "output: the job had nothing to write, and that is allowed",
}
FINAL: frozenset[FileStatus] = frozenset({"broken", "finished", "failed", "cancelled", "nooutput"})
#: units of input that no job has, and that may be used some time
_FREE: tuple[FileStatus, ...] = ("ready", "pending", "staging", "missing", "lost")
_TD, _JG = Owner.TASK_DEFINITION, Owner.JOB_GENERATION

TRANSITIONS: tuple[Transition, ...] = (
    *arrows([None], ["ready", "pending", "staging", "missing", "broken"], "contents loaded", _TD),
    *arrows([None], ["defined", "running"], "output of a generated job", _JG),
    Transition(None, "defined", "further file of an output by expression", _TD),
    Transition(None, "ready", "pseudo input made for a job", _JG),
    Transition(None, "running", "pseudo input made for a job", _JG),
    *arrows(["pending", "staging", "missing"], ["ready"], "became available", _TD),
    *arrows(["lost"], ["ready"], "is in the catalogue again", _TD),
    *arrows(_FREE, ["pending", "staging", "missing", "lost", "broken"], "the catalogue says so", _TD),
    *arrows(["ready"], ["picked"], "taken into a chunk", _JG),
    *arrows(["picked"], ["ready"], "chunk unused or withdrawn", _JG),
    *arrows(["picked"], ["running"], "job inserted", _JG),
    *arrows(["running"], ["finished"], "job finished", _JG),
    *arrows(["running"], ["ready"], "job did not succeed, attempts are left", _JG),
    *arrows(["running", "ready"], ["failed"], "no attempts left", _JG),
    *arrows(["running"], ["broken"], "the job found it corrupted", _JG),
    *arrows(["failed", "lost", "missing", "cancelled"], ["ready"], "re-opened by a command", _TD),
    *arrows(["finished"], ["ready"], "input: what was made of it is lost", _TD),
    *arrows(["finished"], ["lost"], "gone since, and made again", _TD),
    *arrows(["defined"], ["running"], "job started", _JG),
    *arrows(["running", "defined"], ["prepared"], "produced", _JG),
    *arrows(["prepared", "defined"], ["finished"], "in the catalogue", _JG),
    *arrows(["prepared"], ["merging"], "merge job generated", _JG),
    *arrows(["merging"], ["finished"], "merged", _JG),
    *arrows(["merging", "prepared", "defined"], ["failed"], "not produced, or could not be merged", _JG),
    *arrows(["running", "defined", "ready", "prepared"], ["cancelled"], "its job will not produce it", _JG),
    *arrows(["running", "defined"], ["nooutput"], "nothing to write", _JG),
)

FILE = Graph("file", MEANINGS, FINAL, TRANSITIONS)
