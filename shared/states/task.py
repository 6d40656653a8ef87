"""The life of a task (JEDI: Transition of task status)."""

from typing import Literal

from shared.states.graph import Graph, Owner, Transition, arrows

TaskStatus = Literal[
    "registered", "defined", "assigning", "ready", "pending", "scouting", "scouted", "running", "prepared", "done",
    "finished", "failed", "aborting", "toabort", "aborted", "finishing", "passed", "topreprocess", "preprocessing",
    "tobroken", "broken", "toretry", "toincexec", "rerefine", "toreassign", "reassigning", "paused", "throttled",
    "exhausted", "staging", "staged",
]  # fmt: skip

MEANINGS: dict[TaskStatus, str] = {
    "registered": "the task's parameters were accepted and stored",
    "defined": "its datasets and files are known",
    "assigning": "the task brokerage is choosing a nucleus",
    "ready": "jobs can be generated",
    "pending": "waits for a temporary problem to go away",
    "scouting": "the first few jobs measure what the rest will need",
    "scouted": "the scouts succeeded; the rest is about to be opened",
    "running": "jobs are generated and run",
    "prepared": "all input was worked on; the final status is being decided",
    "done": "all input was processed",
    "finished": "part of the input was processed",
    "failed": "none of the input was processed",
    "aborting": "a kill was accepted; its jobs are being killed",
    "toabort": "all jobs are gone; the task is about to be aborted",
    "aborted": "killed",
    "finishing": "was told to finish with what it has",
    "passed": "no job is left; the final status is being decided",
    "topreprocess": "a pre-processing job is about to be generated",
    "preprocessing": "the pre-processing job runs",
    "tobroken": "about to be broken",
    "broken": "its definition cannot work",
    "toretry": "a retry was accepted",
    "toincexec": "an incremental execution was accepted",
    "rerefine": "its parameters are being changed for an incremental execution",
    "toreassign": "a reassignment was accepted",
    "reassigning": "its jobs are being moved elsewhere",
    "paused": "does nothing until it is resumed",
    "throttled": "makes no new jobs for a while because too many attempts failed or too much is queued",
    "exhausted": "needs a decision by its owner: gave up, or its scouts say it is defined badly",
    "staging": "its input is being staged from tape",
    "staged": "its input was staged",
}

FINAL: frozenset[TaskStatus] = frozenset({"done", "finished", "failed", "broken", "aborted"})
_TD, _TB, _JG, _WD = Owner.TASK_DEFINITION, Owner.TASK_BROKERAGE, Owner.JOB_GENERATION, Owner.WATCHDOG

#: what a task can be taken out of, and put back to, by pending
HOLDABLE_BY_DEFINITION: tuple[TaskStatus, ...] = ("registered", "defined", "prepared", "rerefine", "staged")
HOLDABLE_BY_GENERATION: tuple[TaskStatus, ...] = (
    "ready",
    "running",
    "scouting",
    "scouted",
    "topreprocess",
    "preprocessing",
)
HOLDABLE: tuple[TaskStatus, ...] = (*HOLDABLE_BY_DEFINITION, "assigning", *HOLDABLE_BY_GENERATION)
#: what works for a task that is neither final nor on its way out
ACTIVE: tuple[TaskStatus, ...] = (*HOLDABLE, "pending", "paused", "throttled", "exhausted", "staging")
#: states from which a task may be reassigned
REASSIGNABLE: tuple[TaskStatus, ...] = (
    "defined",
    "ready",
    "running",
    "scouting",
    "scouted",
    "pending",
    "assigning",
    "exhausted",
)
_THROTTLEABLE: tuple[TaskStatus, ...] = ("ready", "scouting", "running")

TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, "registered", "submitted", _TD),
    *arrows(["registered", "rerefine"], ["defined"], "refined; datasets and files inserted", _TD),
    *arrows(["registered", "rerefine"], ["topreprocess"], "needs pre-processing", _TD),
    *arrows(["topreprocess"], ["preprocessing"], "pre-processing job generated", _JG),
    *arrows(["preprocessing"], ["registered"], "pre-processing succeeded", _JG),
    *arrows(["preprocessing"], ["prepared"], "pre-processing gave up", _JG),
    *arrows(["registered", "rerefine", "defined"], ["finishing"], "input missing or empty, and that is allowed", _TD),
    *arrows(["registered", "defined"], ["staging"], "input must be staged from tape", _TD),
    *arrows(["staging"], ["staged"], "input staged", _TD),
    *arrows(["staged"], ["registered", "defined"], "refined after staging", _TD),
    *arrows(["defined"], ["assigning"], "needs a nucleus", _TD),
    *arrows(["defined"], ["ready"], "analysis or pre-assigned", _TD),
    *arrows(["assigning"], ["ready"], "nucleus chosen", _TB),
    *arrows(["ready"], ["scouting"], "scout jobs generated", _JG),
    *arrows(["ready"], ["running"], "first jobs generated, no scouts", _JG),
    *arrows(["scouting", "ready"], ["scouted"], "enough scouts succeeded", _JG),
    *arrows(["scouting", "running"], ["exhausted"], "its jobs measured something its definition does not expect", _JG),
    *arrows(["scouted"], ["running"], "avalanche: all input opened", _JG),
    *arrows(["running", "ready"], ["prepared"], "all input worked on", _JG),
    *arrows(["running", "ready", "throttled"], ["defined"], "an open input dataset must be looked at again", _JG),
    *arrows(HOLDABLE_BY_DEFINITION, ["pending"], "temporary problem", _TD),
    *arrows(["assigning"], ["pending"], "temporary problem", _TB),
    *arrows(HOLDABLE_BY_GENERATION, ["pending"], "temporary problem", _JG),
    *arrows(["pending"], HOLDABLE, "waited long enough", _WD),
    *arrows(["pending"], ["exhausted"], "pending for too long", _WD),
    *arrows(["assigning"], ["exhausted"], "no nucleus for too long", _WD),
    *arrows(_THROTTLEABLE, ["throttled"], "too many failed attempts, or too much queued", _WD),
    *arrows(["throttled"], _THROTTLEABLE, "released", _WD),
    *arrows(["prepared", "passed"], ["done", "finished", "failed"], "final status decided", _TD),
    *arrows(["prepared"], ["exhausted"], "goal not reached and useExhausted", _TD),
    *arrows(ACTIVE, ["aborting"], "kill", _TD),
    *arrows(["finishing", "toretry", "toincexec", "toreassign", "reassigning"], ["aborting"], "kill", _TD),
    *arrows(["aborting"], ["toabort"], "no job left", _TD),
    *arrows(["toabort"], ["aborted"], "cleaned up", _TD),
    *arrows(ACTIVE, ["finishing"], "finish", _TD),
    *arrows(["finishing"], ["passed"], "no job left", _TD),
    *arrows(["finished", "failed", "aborted", "exhausted"], ["toretry"], "retry", _TD),
    *arrows(["done"], ["toretry"], "lost outputs are made again", _TD),
    *arrows(["toretry"], ["ready", "running", "scouting"], "files re-opened", _TD),
    *arrows(["toretry"], ["assigning"], "files re-opened, but no nucleus was chosen yet", _TD),
    *arrows(["toretry"], ["topreprocess"], "files re-opened, but its pre-processing is not done", _TD),
    *arrows(["toretry"], ["finished", "failed", "aborted", "exhausted"], "nothing left to retry", _TD),
    *arrows(["finished", "failed", "aborted", "exhausted", "done"], ["toincexec"], "incremental execution", _TD),
    *arrows(["toincexec"], ["rerefine"], "parameters merged", _TD),
    *arrows(REASSIGNABLE, ["toreassign"], "reassign", _TD),
    *arrows(["toreassign"], ["reassigning"], "jobs being killed", _TD),
    *arrows(
        ["reassigning"],
        ["ready", "assigning", "running", "scouting", "scouted", "defined", "pending"],
        "jobs killed",
        _TD,
    ),
    *arrows([*HOLDABLE, "pending", "throttled", "exhausted", "staging"], ["paused"], "pause", _TD),
    *arrows(["paused"], [*HOLDABLE, "pending", "throttled", "exhausted", "staging"], "resume", _TD),
    *arrows(["throttled"], _THROTTLEABLE, "resume", _TD),
    *arrows(["registered", "defined", "rerefine", "staged", "staging"], ["tobroken"], "definition cannot work", _TD),
    *arrows(["assigning"], ["tobroken"], "definition cannot work", _TB),
    *arrows(HOLDABLE_BY_GENERATION, ["tobroken"], "too few scouts succeeded, or jobs cannot be defined", _JG),
    *arrows(["tobroken"], ["broken"], "cleaned up", _TD),
)

TASK = Graph("task", MEANINGS, FINAL, TRANSITIONS)
