"""Runtime parameters: those that were set, one with what a change would do, and the form that sets it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from services.console.api.visits import Console, Done, Visit
from services.console.asking import Refused
from services.console.policy.sessions import HOME, path_after
from services.console.showing.pages import Page
from services.console.signing import Said

ACTIONS = ("set", "unset")


def routes(console: Console) -> list[Route]:
    return [
        console.page("system/parameters", parameters, ("component",)),
        console.page("system/parameters/change", preview, ("name", "value", "vo", "next")),
        console.form("system/parameters/change", change),
    ]


async def parameters(visit: Visit) -> Page:
    """List what was set, and by whom; other parameters have their defaults."""
    component = visit.word("component")
    rows = await visit.api.get("config/list", component=component)
    verb = f"orrery config list {component}".strip()
    data = {"component": component, "parameters": rows}
    return Page("parameters.html", "Parameters", verb, data, shown={"tab": "parameters"})


async def preview(visit: Visit) -> Page:
    """Say what a parameter means, what it is and what it would be, before it is set."""
    component, key = _named(visit.word("name"))
    value = visit.word("value")
    described = await visit.api.get(
        "config/describe", component=component, key=key, vo=visit.word("vo"), value=value or None
    )
    described = {"would_be": value, "wrong": None} | described
    data = {"parameter": described, "value": value, "vo": visit.word("vo")}
    may_set = visit.session.is_operator and "modify" in visit.session.rights.split(",")
    shown = {"tab": "parameters", "may_set": may_set, "next": _next(visit.word("next"))}
    for_vo = f" --vo {data['vo']}" if data["vo"] else ""
    verb = f"orrery config set {described['name']} {data['value'] or 'VALUE'}{for_vo}"
    status = 400 if described.get("wrong") else 200
    return Page("parameter.html", f"Parameter {described['name']}", verb, data, shown=shown, status=status)


async def change(visit: Visit, fields: Mapping[str, str]) -> Done:
    """Set it, or give it back its default; then go on where the page was opened from."""
    component, key = _named(fields.get("name", ""))
    action, value = fields.get("action", ""), fields.get("value", "").strip()
    if action not in ACTIONS:
        raise Refused(f"action: {action[:40]!r}: allowed: {', '.join(ACTIONS)}")
    body: dict[str, Any] = {"component": component, "key": key}
    if vo := fields.get("vo", "").strip():
        body["vo"] = vo
    if action == "set":
        if not value:
            raise Refused("value: is needed; `Back to its default` forgets what was set")
        body |= {"value": value, "description": fields.get("reason", "").strip()}
    answer = await visit.api.post(f"config/{action}", body)
    return Done(_next(fields.get("next", "")), Said(f"config {action}: {answer.message or 'done'}", good=True))


def _named(name: str) -> tuple[str, str]:
    """COMPONENT.KEY. Raises Refused."""
    component, _, key = name.strip().partition(".")
    if not (component and key) or len(name) > 400:
        raise Refused(f"name: {name[:60]!r}: allowed: COMPONENT.KEY of a runtime parameter")
    return component, key


def _next(wanted: str) -> str:
    """Where one goes on: at the parameters, unless the page was opened from another one of ours."""
    after = path_after(wanted)
    return f"{HOME}system/parameters" if after == HOME else after
