"""Commands on a task: what each would do, said before it is given, and the form that gives it.

`bulk` gives one to several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Done, Visit
from services.console.asking import NotThere, Refused
from services.console.policy.sessions import HOME
from services.console.showing.pages import Page
from services.console.signing import Said

#: fields of forms that the address may fill in: those of commands on numbers of a task
PREFILLED = ("attribute_name", "value", "priority")
#: jobs of each state that are counted
COUNT_TO = 10_000
#: of an older client, and another name of a field that is there
NOT_OFFERED = frozenset({("reassign", "soft"), ("change_split_rule", "attribute_value")})


def routes(console: Console) -> list[Route]:
    path = "tasks/{task_id:id}/commands/{command:str}"
    return [console.page(path, preview, PREFILLED), console.form(path, give)]


async def preview(visit: Visit) -> Page:
    """Say what the command does to the task, its jobs, files and children, and what it takes."""
    task_id = visit.id("task_id")
    command = await _command(visit)
    task = await visit.api.get("task/get_details", task_id=task_id, count_to=COUNT_TO)
    kept = ("task_name", "status", "jobs", "more_jobs", "files")
    data = {"command": command, "task": {name: task.get(name) for name in kept}}
    inputs = inputs_of(command)
    taken = {one["name"] for one in inputs}
    filled = {name: visit.word(name) for name in PREFILLED if name in taken and visit.word(name)}
    shown = {"task_id": task_id, "tab": "overview", "inputs": inputs, "filled": filled}
    verb = " ".join(["orrery", command["verb"], str(task_id), *filled.values()])
    return Page("command.html", f"Task {task_id}: {command['verb']}", verb, data, shown=shown)


async def give(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Give the command, and say what became of it with the task."""
    task_id = visit.id("task_id")
    command = await _command(visit)
    body: dict[str, Any] = {"task_id": task_id, **given_in(command, fields)}
    if reason := fields.get("reason", "").strip():
        body["reason"] = reason
    answer = await visit.api.post(f"task/{command['path']}", body)
    return Done(f"{HOME}tasks/{task_id}", Said(f"{command['verb']}: {answer.message or 'done'}", good=True))


async def _command(visit: Visit) -> dict[str, Any]:
    wanted = visit.request.path_params["command"]
    offered = await visit.api.get("task/get_commands", task_id=visit.id("task_id"))
    found: dict[str, Any] | None = next((one for one in offered if one["verb"] == wanted), None)
    if found is None:
        raise NotThere(f"there is no command {wanted!r}; there are: {', '.join(one['verb'] for one in offered)}")
    return found


def inputs_of(command: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in command["takes"] if (command["name"], one["name"]) not in NOT_OFFERED]


def given_in(command: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """The body of the request; what was left empty is left out. Raises Refused."""
    body: dict[str, Any] = {}
    for one in inputs_of(command):
        name, text = one["name"], fields.get(one["name"], "").strip()
        if one["kind"] == "flag":
            body[name] = (not text) if one["inverted"] else bool(text)
        elif not text:
            if one["required"]:
                raise Refused(f"{name}: is needed: {one['means']}")
        elif one["kind"] == "number":
            body[name] = _number(name, text)
        elif one["kind"] == "parameters":
            body[name] = dict(_pair(name, line) for line in text.splitlines() if line.strip())
        elif one["kind"] == "names":
            body[name] = [line.strip() for line in text.splitlines() if line.strip()]
        else:
            body[name] = text
    return body


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise Refused(f"{name}: {text[:40]!r}: allowed: a whole number")
    return int(text)


def _pair(name: str, line: str) -> tuple[str, int | bool | str | None]:
    """NAME=VALUE as the command line reads it. Raises Refused."""
    key, sign, value = line.strip().partition("=")
    if not sign or not key:
        raise Refused(f"{name}: {line[:80]!r}: allowed: a NAME=VALUE on each line, such as nFilesPerJob=5")
    if value.lower() in ("true", "false"):
        return key, value.lower() == "true"
    digits = value.removeprefix("-")
    return key, int(value) if digits.isascii() and digits.isdigit() and len(digits) < 19 else value or None
