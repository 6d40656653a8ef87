"""What if: a decision about a task, made again on the server with other numbers, and what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from starlette.routing import Route

from services.console.api.visits import Console, Visit
from services.console.asking import NotPermitted, NotThere, Refused
from services.console.policy import reasons
from services.console.policy.numbers import whole_number
from services.console.policy.reasons import ids_of
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page

#: differences that are listed
CHANGES = 100
#: numbers of a task, what each is, and the name of its unit in the answer
NUMBERS: Mapping[str, tuple[str, str]] = {
    "ram_count": ("memory", "ram_unit"),
    "core_count": ("cores", ""),
    "cpu_time": ("CPU time", "cpu_time_unit"),
    "base_walltime": ("walltime that does not grow with input, s", ""),
    "work_disk_count": ("work directory", "work_disk_unit"),
    "out_disk_count": ("output", "out_disk_unit"),
    "io_intensity": ("input and output", "io_intensity_unit"),
    "priority": ("priority", ""),
}
#: the command that changes a number for real, what it is given besides, and the name of the number there
COMMANDS: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "ram_count": ("set-need", {"attribute_name": "ramCount"}, "value"),
    "core_count": ("set-need", {"attribute_name": "coreCount"}, "value"),
    "cpu_time": ("set-need", {"attribute_name": "cpuTime"}, "value"),
    "priority": ("set-priority", {}, "priority"),
}
#: a merge has numbers of its own of these
OF_MERGES = frozenset({"ram_count", "core_count"})


def routes(console: Console) -> list[Route]:
    takes = ("decision", "parameter", *NUMBERS)
    return [console.page("tasks/{task_id:id}/what-if", what_if, takes)]


async def what_if(visit: Visit) -> Page:
    """Decide again with the numbers that were filled in; without any the form alone is shown."""
    task_id, wanted = visit.id("task_id"), visit.word("decision")
    explanation = await _explained(visit, task_id, wanted)
    decision = _about_queues(explanation, wanted)
    if decision is None:
        raise NotThere(f"no decision {wanted or 'about queues'} is kept of task {task_id}")
    if not decision["queues"]:  # those of another one were told
        explanation = await _explained(visit, task_id, str(decision["decision_id"]))
        decision = _about_queues(explanation, str(decision["decision_id"])) or decision
    given = {name: whole_number(visit.word(name)) for name in NUMBERS if visit.word(name)}
    settings = visit.word("parameter").split()
    asked: dict[str, Any] = {
        "task_id": task_id,
        "chunk_id": decision["chunk_id"],
        "seed": decision["seed"],
        "limit": CHANGES,
    }
    supposed: dict[str, Any] = {"number": [f"{name}={value}" for name, value in given.items()], "parameter": settings}
    wrong: Sequence[str] = ()
    try:
        found = await visit.api.get("grid/what_if", **asked, **supposed)
    except (NotThere, NotPermitted):
        raise
    except Refused as error:  # the form is shown again, with what is as it is
        wrong = sentences_of(error)
        found = await visit.api.get("grid/what_if", **asked)
    data = {
        "task": explanation["task"],
        "decision": {name: decision[name] for name in ("decision_id", "chunk_id", "decided_at", "outcome")},
        **{name: found[name] for name in ("numbers", "units", "before", "after")},
        "given": given,
        "settings": settings,
        "changes": [asdict(one) for one in reasons.changes_of(found["changes"])],
        "n_changes": found["n_changes"],
    }
    is_merge = decision["chunk_kind"] == "merge"
    shown = {"tab": "why", "task_id": task_id, "names": NUMBERS, "governing": _governing(decision), "wrong": wrong,
             "for_real": [] if wrong else _for_real(task_id, given, settings, is_merge=is_merge)}  # fmt: skip
    return Page("what_if.html", f"Task {task_id}: what if", f"orrery explain task {task_id} --all", data, shown=shown,
                status=400 if wrong else 200)  # fmt: skip


def sentences_of(error: Refused) -> Sequence[str]:
    """Each value that was refused, with what is allowed."""
    told = [str(one.get("message") or f"{one.get('field')}: allowed: {one.get('allowed')}") for one in error.problems]
    return told or [str(error) or "it was refused"]


async def _explained(visit: Visit, task_id: int, decision: str) -> dict[str, Any]:
    """With one queue of each check of a decision, or of the first: the parameters of a check are the same for all."""
    named = ids_of(decision)
    found: dict[str, Any] = await visit.api.get(
        "explain/task", task_id=task_id, counts="false", queues=1, decision=named
    )
    return found


def _about_queues(explanation: Mapping[str, Any], wanted: str) -> Mapping[str, Any] | None:
    about = (one for one in explanation.get("decisions") or [] if one["kind"] == "job" and one["chunk_id"])
    return next((one for one in about if wanted in ("", str(one["decision_id"]))), None)


def _for_real(
    task_id: int, given: Mapping[str, str], settings: Sequence[str], *, is_merge: bool
) -> Sequence[tuple[str, str]]:
    """Labels and pages at which what was supposed is done, of whatever can be changed of a live task.

    Commands take whole numbers; none changes what merges need.
    """
    commands = [
        (
            " ".join([verb, *words.values(), value]),
            f"tasks/{task_id}/commands/{verb}?{urlencode({**words, field: value})}",
        )
        for name, value in given.items()
        if name in COMMANDS and value.isdecimal() and not (is_merge and name in OF_MERGES)
        for verb, words, field in [COMMANDS[name]]
    ]
    why, named = f"{HOME}tasks/{task_id}/why", [one.partition("=")[::2] for one in settings]
    set_at = "system/parameters/change?"
    parameters = [
        (f"set {name} to {value}", set_at + urlencode({"name": name, "value": value, "next": why}))
        for name, value in named
    ]
    return [*parameters, *commands]


def _governing(decision: Mapping[str, Any]) -> Sequence[str]:
    """The parameters of the checks that left queues out, to choose from."""
    return sorted({name for one in decision["queues"] for name in one.get("parameters") or ()})
